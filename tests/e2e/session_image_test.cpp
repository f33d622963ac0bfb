// session_image_test: sessions made of an image: its files, its users, what changes of it stay,
// commits, and that images and sessions outlive each other.
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/images.h"
#include "tests/support/skip.h"

namespace sbx::test {

namespace {

/// A small system: busybox, two users, a directory of each.
constexpr const char* kTree =
    "mkdir -p bin etc srv/app var/lib/data; cp /bin/busybox bin/busybox;"
    "for a in sh cat id ls mkdir rm touch echo stat chown sleep env pwd; do ln -s busybox bin/$a; "
    "done;"
    "printf 'root:x:0:0::/root:/bin/sh\\napp:x:33:44::/srv/app:/bin/sh\\n' >etc/passwd;"
    "printf 'root:x:0:\\napp:x:44:\\nmore:x:55:app\\n' >etc/group; echo lower >etc/own; echo old "
    ">srv/app/f";

struct Made {
  Made() { images.import(images.tar("a.tar", kTree), "small"); }
  Outcome session(const Args& words) const {
    Args args{"session"};
    args.insert(args.end(), words.begin(), words.end());
    return images.sbx(std::move(args));
  }
  void start(const std::string& name, const Args& flags = {}) const {
    Args args{"start", name, "-p", "bash", "--image", "small"};
    args.insert(args.end(), flags.begin(), flags.end());
    const Outcome o = session(args);
    INFO(o.show());
    REQUIRE(o.code == 0);
  }
  Outcome exec(const std::string& name, const std::string& code, const Args& flags = {}) const {
    Args args{"exec", name};
    args.insert(args.end(), flags.begin(), flags.end());
    args.insert(args.end(), {"--", "sh", "-c", code});
    return session(args);
  }
  std::string out(const std::string& name, const std::string& code, const Args& flags = {}) const {
    const Outcome o = exec(name, code, flags);
    INFO(o.show());
    CHECK(o.code == 0);
    return trimmed(o.out);
  }
  const Images images;
};

}  // namespace

TEST_SUITE("session") {
  TEST_CASE("session image: what is changed stays over a stop, and diff shows nothing else") {
    SKIP_UNLESS("image-ids");
    const Made made;
    made.start("s");
    CHECK(made.out("s", "cat /etc/own; id -u") == "lower\n0");
    CHECK(field(made.session({"show", "s", "--json"}).out, "/image/name") == "small");
    CHECK(made.out("s", "echo new >/etc/own; rm /srv/app/f; chown 33:44 /srv/app; touch /work/w")
              .empty());
    CHECK(made.session({"stop", "s"}).code == 0);
    CHECK(made.out("s", "cat /etc/own; ls /srv/app; stat -c %u:%g /srv/app; ls /work") ==
          "new\n33:44\nw");
    const Outcome diff = made.session({"diff", "s", "/"});
    INFO(diff.show());
    CHECK(diff.code == 0);
    CHECK(contains(diff.out, "etc/own"));
    CHECK(contains(diff.out, "srv/app/f"));
    CHECK(!contains(diff.out, "busybox"));
    CHECK(!contains(diff.out, "etc/passwd"));
    CHECK(made.session({"rm", "-f", "s"}).code == 0);
    CHECK(made.images.layers().size() >= 1);
    CHECK(made.images.is_clean());
  }

  TEST_CASE("session image: programs run as the image's users, by name and by number") {
    SKIP_UNLESS("image-ids");
    const Made made;
    made.start("s");
    CHECK(made.out("s", "id -u; id -g", {"-u", "app"}) == "33\n44");
    CHECK(made.out("s", "id -u; id -g", {"-u", "12:13"}) == "12\n13");
    CHECK(made.out("s", "touch /srv/app/x && echo no", {"-u", "0"}) == "no");
    const Outcome denied = made.exec("s", "echo x >/etc/own", {"-u", "app"});
    CHECK(denied.code != 0);
    const Outcome nobody = made.exec("s", "true", {"-u", "nope"});
    INFO(nobody.show());
    CHECK(nobody.code == 2);
    CHECK(contains(nobody.err, "nope"));
  }

  TEST_CASE("session image: checkpoint, restore and fork keep owners and whiteouts") {
    SKIP_UNLESS("image-ids");
    const Made made;
    made.start("s");
    (void)made.out(
        "s", "rm -r /srv/app; mkdir /srv/app; touch /srv/app/mine; chown 33:44 /srv/app/mine");
    CHECK(made.session({"checkpoint", "s", "one"}).code == 0);
    (void)made.out("s", "rm /srv/app/mine; echo 2 >/etc/own");
    CHECK(made.session({"fork", "s", "t", "--from", "one"}).code == 0);
    CHECK(made.out("t", "ls /srv/app; stat -c %u:%g /srv/app/mine; cat /etc/own") ==
          "mine\n33:44\nlower");
    const Outcome restored = made.session({"restore", "s", "one"});
    INFO(restored.show());
    CHECK(restored.code == 0);
    CHECK(made.out("s", "ls /srv/app; cat /etc/own") == "mine\nlower");
  }

  TEST_CASE("session image: the name may go, the session goes on, and its end frees the layers") {
    SKIP_UNLESS("image-ids");
    const Made made;
    made.start("s");
    CHECK(made.images.call({"rm", "small"}).code == 0);
    CHECK(made.images.sbx({"gc"}).code == 0);
    CHECK(made.out("s", "cat /etc/own") == "lower");
    CHECK(made.session({"stop", "s"}).code == 0);
    CHECK(made.out("s", "cat /etc/own") == "lower");
    CHECK(made.session({"rm", "-f", "s"}).code == 0);
    CHECK(made.images.sbx({"gc"}).code == 0);
    CHECK(made.images.is_clean());
    for (const std::string& layer : made.images.layers()) {
      CHECK(!layer.starts_with("img-"));
    }
  }

  TEST_CASE("session image: an image that is not there is a usage error that names near ones") {
    SKIP_UNLESS("image-ids");
    const Made made;
    const Outcome o = made.session({"start", "s", "--image", "smal"});
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(contains(o.err, "small"));
    CHECK(made.session({"ls", "-q"}).out.empty());
  }

  TEST_CASE("session image: sessions share the image's files on the disk") {
    SKIP_UNLESS("image-ids");
    const Made made;
    const std::size_t before = made.images.layers().size();
    for (int i = 0; i < 5; ++i) {
      made.start("s" + std::to_string(i));
    }
    // One writable layer for each, and one base for all.
    CHECK(made.images.layers().size() <= before + 6);
    const Outcome stats = made.session({"stats", "s0", "--json"});
    INFO(stats.show());
    const std::string bytes = field(stats.out, "/disk_bytes");
    REQUIRE(!bytes.empty());
    CHECK(std::strtoll(bytes.c_str(), nullptr, 10) < 500'000);
  }

  TEST_CASE("session commit: the changes become an image that runs and that sessions are made of") {
    SKIP_UNLESS("image-ids");
    const Made made;
    made.start("s");
    (void)made.out("s",
                   "echo committed >/etc/own; rm -r /srv/app; mkdir -p /opt; touch /opt/x; chown "
                   "33:44 /opt/x; mkdir /opt/d; touch /opt/d/y; chown 33:44 /opt/d /opt/d/y");
    const Outcome live = made.session({"commit", "s", "next"});  // while it runs
    INFO(live.show());
    REQUIRE(live.code == 0);
    CHECK(made.session({"stop", "s"}).code == 0);
    const Outcome stopped = made.session({"commit", "s", "again"});
    INFO(stopped.show());
    REQUIRE(stopped.code == 0);
    CHECK(made.images.show("next", "/layers/1/id") == made.images.show("again", "/layers/1/id"));
    CHECK(made.session({"rm", "-f", "s"}).code == 0);
    CHECK(made.images.sbx({"gc"}).code == 0);
    const Outcome run = made.images.sbx({"run",
                                         "--image",
                                         "next",
                                         "--",
                                         "sh",
                                         "-c",
                                         "cat /etc/own; ls /srv; stat -c %u:%g /opt/x"});
    INFO(run.show());
    CHECK(run.code == 0);
    CHECK(run.out == "committed\n33:44\n");
    const Outcome start = made.session({"start", "t", "-p", "bash", "--image", "again"});
    INFO(start.show());
    REQUIRE(start.code == 0);
    CHECK(made.out("t", "cat /etc/own") == "committed");
  }

  TEST_CASE("session commit: a session of the host's programs is refused") {
    SKIP_UNLESS("image-ids");
    const Images images;
    REQUIRE(images.sbx({"session", "start", "s", "-p", "bash"}).code == 0);
    const Outcome o = images.sbx({"session", "commit", "s", "x"});
    INFO(o.show());
    CHECK(o.code != 0);
    CHECK(contains(o.err, "no image"));
    CHECK(images.call({"ls", "-q"}).out.empty());
  }
}

}  // namespace sbx::test
