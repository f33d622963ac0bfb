// image_export_test: archives of images that other tools read, that come back as they were, and an
// image of Debian packages in which apt works.
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/images.h"
#include "tests/support/skip.h"

namespace sbx::test {

namespace {

/// Everything that an archive has to keep: modes, owners, links, attributes, long and odd names.
constexpr const char* kTree =
    "mkdir -p bin etc a/b 'sp ace'; cp /bin/busybox bin/busybox; chmod 4755 bin/busybox;"
    "for a in sh cat ls id rm mkdir touch chown; do ln -s busybox bin/$a; done;"
    "printf 'root:x:0:0::/root:/bin/sh\\n' >etc/passwd; echo one >a/f; ln a/f a/g; chmod 1777 a/b;"
    "setfattr -n user.k -v v a/f; mkfifo a/pipe; touch 'sp ace/\\n'; touch -d @1000 a/f;"
    "touch \"$(printf 'n%.0s' $(seq 1 200))\"; truncate -s 3M hole";

/// `tar tvf`-like text of all of an image's files, in a fixed order.
std::string listing(const Images& images, const std::string& name) {
  const std::string file = images.dir().at("list.tar");
  const Outcome o = images.call({"export", name, file, "--format", "tar"});
  INFO(o.show());
  REQUIRE(o.code == 0);
  const Outcome list =
      run({.argv = {"/bin/sh",
                    "-ec",
                    "tar --numeric-owner --xattrs --full-time -tvvf list.tar | LC_ALL=C sort; "
                    "tar -xOf list.tar | sha256sum"},
           .env = environment_of(subject()),
           .cwd = images.dir().path(),
           .as = &subject(),
           .timeout = 120});
  INFO(list.show());
  REQUIRE(list.code == 0);
  return list.out;
}

/// Changes of a second layer: a whiteout, an opaque directory, another owner.
void add_layer(const Images& images) {
  const auto session = [&](Args args) {
    args.insert(args.begin(), "session");
    const Outcome o = images.sbx(args);
    INFO(o.show());
    REQUIRE(o.code == 0);
  };
  session({"start", "s", "-p", "bash", "--image", "one"});
  session(
      {"exec",
       "s",
       "--",
       "sh",
       "-c",
       "rm a/g /etc/passwd 2>/dev/null; cd /; rm -r a; mkdir a; touch a/new; chown 33:44 a/new"});
  session({"commit", "s", "two"});
  session({"rm", "-f", "s"});
}

}  // namespace

TEST_SUITE("image") {
  TEST_CASE("image export: what is exported and imported again is the same, and stored once") {
    SKIP_UNLESS("image-ids");
    const Images images;
    images.import(images.tar("a.tar", kTree, "0:0"), "one");
    add_layer(images);
    const std::string before = listing(images, "two");
    CHECK(contains(before, "33/44"));
    CHECK(!contains(before, "a/f"));
    for (const char* format : {"oci", "docker", "tar"}) {
      CAPTURE(format);
      const std::string file = images.dir().at(std::string(format) + ".tar");
      const Outcome out = images.call({"export", "two", file, "--format", format});
      INFO(out.show());
      REQUIRE(out.code == 0);
      const std::size_t layers = images.layers().size();
      images.import(file, format);
      CHECK(listing(images, format) == before);
      // A plain tar is one layer of its own; the others have layers that are here already.
      CHECK(images.layers().size() == layers + (std::string_view(format) == "tar" ? 1 : 0));
    }
    CHECK(images.show("oci", "/config/env") == images.show("two", "/config/env"));
  }

  TEST_CASE("image export: skopeo and umoci accept the archives") {
    SKIP_UNLESS("image-ids");
    SKIP_UNLESS("skopeo");
    SKIP_UNLESS("umoci");
    const Images images;
    images.import(images.tar("a.tar", kTree), "one");
    add_layer(images);
    for (const char* how : {"gzip", "zstd", "none"}) {
      CAPTURE(how);
      const Outcome out =
          images.call({"export", "two", images.dir().at("x.tar"), "--compress", how});
      INFO(out.show());
      REQUIRE(out.code == 0);
      images.shell(
          "rm -rf layout back; skopeo --insecure-policy copy -q oci-archive:x.tar oci:layout:two");
      images.shell("skopeo inspect oci-archive:x.tar | grep -q '\"Layers\"'");
    }
    const Outcome out =
        images.call({"export", "two", images.dir().at("d.tar"), "--format", "docker"});
    INFO(out.show());
    REQUIRE(out.code == 0);
    images.shell("skopeo --insecure-policy copy -q docker-archive:d.tar oci:docker:two");
    images.shell(
        "umoci unpack --rootless --image docker:two bundle; test -e bundle/rootfs/a/new; "
        "test ! -e bundle/rootfs/a/f; test -e bundle/rootfs/bin/busybox; chmod -R u+rwX bundle");
    // And what they made comes back.
    images.import(images.dir().at("docker"), "back");
    CHECK(listing(images, "back") == listing(images, "two"));
  }

  TEST_CASE("image export: a file system image is made once for each image") {
    SKIP_UNLESS("image-ids");
    SKIP_UNLESS("erofs");
    const Images images;
    images.import(images.tar("a.tar", kTree), "one");
    for (const char* format : {"erofs", "ext4"}) {
      CAPTURE(format);
      const std::string file = images.dir().at(std::string("fs.") + format);
      const Outcome out = images.call({"export", "one", file, "--format", format});
      INFO(out.show());
      CHECK(out.code == 0);
      images.shell("test -s fs." + std::string(format));
    }
    CHECK(images.call({"rm", "one"}).code == 0);
    CHECK(images.sbx({"gc"}).code == 0);
    CHECK(images.is_clean());
  }

  TEST_CASE("image create: apt installs a package in a session of Debian") {
    SKIP_UNLESS("image-ids");
    SKIP_UNLESS("mmdebstrap");
    const Images images;
    Spec spec =
        images.spec({"create", "debian", "--debootstrap", "bookworm", "--variant", "apt", "-q"});
    spec.timeout = 280;
    const Outcome made = run(spec);
    INFO(made.show());
    REQUIRE(made.code == 0);
    images.shell(R"(mkdir -p repo hello/DEBIAN hello/usr/bin
printf 'Package: hello\nVersion: 1.0\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: says hello\n' >hello/DEBIAN/control
printf '#!/bin/sh\necho Hello, world!\n' >hello/usr/bin/hello; chmod 755 hello/usr/bin/hello
dpkg-deb -b --root-owner-group hello repo/hello_1.0_all.deb >/dev/null
{ cat hello/DEBIAN/control; echo Filename: ./hello_1.0_all.deb
echo Size: $(stat -c %s repo/hello_1.0_all.deb); echo SHA256: $(sha256sum repo/hello_1.0_all.deb | cut -d' ' -f1); } >repo/Packages
chmod -R a+rX repo)");
    const auto session = [&](Args args) {
      args.insert(args.begin(), "session");
      Outcome o = images.sbx(args);
      INFO(o.show());
      CHECK(o.code == 0);
      return o;
    };
    session({"start",
             "s",
             "-p",
             "agent",
             "--image",
             "debian",
             "-v",
             images.dir().at("repo") + ":/repo"});
    const Outcome apt = session({"exec",
                                 "s",
                                 "--",
                                 "sh",
                                 "-c",
                                 "rm -rf /etc/apt/sources.list.d/*;"
                                 "echo 'deb [trusted=yes] file:/repo ./' >/etc/apt/sources.list;"
                                 "apt-get update && apt-get install -y hello && hello"});
    CHECK(contains(apt.out, "Hello, world!"));
    session({"stop", "s"});
    CHECK(session({"exec", "s", "--", "hello"}).out == "Hello, world!\n");
    session({"commit", "s", "with-hello"});
    const Outcome run = images.sbx({"run", "--image", "with-hello", "--", "hello"});
    INFO(run.show());
    CHECK(run.out == "Hello, world!\n");
    // What Debian brings (users, modes, capabilities of files) survives an archive.
    const std::string before = listing(images, "debian");
    const std::string file = images.dir().at("debian.tar");
    CHECK(images.call({"export", "debian", file}).code == 0);
    images.import(file, "again");
    CHECK(listing(images, "again") == before);
  }
}

}  // namespace sbx::test
