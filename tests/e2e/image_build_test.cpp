// image_build_test: images by recipes: steps, what is kept of them, mistakes, a build that is
// killed.
#include <csignal>
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/images.h"
#include "tests/support/skip.h"

namespace sbx::test {

namespace {

constexpr const char* kTree =
    "mkdir -p bin etc tmp; cp /bin/busybox bin/busybox;"
    "for a in sh cat id ls mkdir rm touch echo stat sleep env pwd; do ln -s busybox bin/$a; done;"
    "printf 'root:x:0:0::/root:/bin/sh\\napp:x:33:44::/srv:/bin/sh\\n' >etc/passwd;"
    "printf 'root:x:0:\\napp:x:44:\\n' >etc/group";

struct Made {
  Made() { images.import(images.tar("a.tar", kTree), "small"); }
  void recipe(const std::string& text) const {
    images.shell("cat >recipe.yaml <<'END'\n" + text + "END\n");
  }
  Outcome build(const std::string& name, const Args& flags = {}) const {
    Args args{"build", name, "-f", images.dir().at("recipe.yaml")};
    args.insert(args.end(), flags.begin(), flags.end());
    return images.call(args);
  }
  Outcome run(const std::string& name, const Args& words = {}) const {
    Args args{"run", "--image", name};
    if (!words.empty()) args.emplace_back("--");
    args.insert(args.end(), words.begin(), words.end());
    return images.sbx(args);
  }
  const Images images;
};

constexpr const char* kRecipe = R"(from: small
steps:
  - run: echo made >/etc/made; id -u >>/etc/made
  - copy: {from: app, to: /opt/app}
  - copy: {from: app/start, to: /usr/local/bin/}
  - env: {GREETING: hello}
  - workdir: /var/data
  - run: pwd >here
  - user: app
  - run: [sh, -c, "id -u >/tmp/x; echo $GREETING"]
  - entrypoint: [/opt/app/start]
  - cmd: [a, b]
  - expose: [80]
)";

}  // namespace

TEST_SUITE("image") {
  TEST_CASE("image build: every step does what it says") {
    SKIP_UNLESS("image-ids");
    const Made made;
    made.images.shell(
        "mkdir -p app/sub; printf '#!/bin/sh\\necho start $GREETING $* $(id -u) $(pwd)\\n' "
        ">app/start;"
        "chmod 755 app/start; echo data >app/sub/data; ln -s sub/data app/link");
    made.recipe(kRecipe);
    const Outcome built = made.build("app");
    INFO(built.show());
    REQUIRE(built.code == 0);
    CHECK(built.out == "app\n");
    CHECK(contains(built.err, "[1/11] run echo made"));
    CHECK(contains(built.err, "hello"));  // what a step wrote

    const Outcome own = made.run("app");
    INFO(own.show());
    CHECK(own.code == 0);
    CHECK(own.out == "start hello a b 33 /var/data\n");
    const Outcome look = made.images.sbx(
        {"run",
         "--image",
         "app",
         "--entrypoint",
         "",
         "--",
         "sh",
         "-c",
         "cat /etc/made /opt/app/link /var/data/here; stat -c '%u %a' /usr/local/bin/start"});
    INFO(look.show());
    CHECK(look.out == "made\n0\ndata\n/var/data\n0 755\n");
    CHECK(contains(made.images.show("app", "/config/exposed_ports"), "80/tcp"));
    CHECK(made.images.call({"ls", "-q"}).out == "app\nsmall\n");
    CHECK(made.images.sbx({"session", "ls", "-q"}).out.empty());
  }

  TEST_CASE("image build: steps are kept as long as nothing before them changes") {
    SKIP_UNLESS("image-ids");
    const Made made;
    made.images.shell("mkdir app; echo 1 >app/f");
    made.recipe(
        "from: small\nsteps:\n- run: cat /proc/sys/kernel/random/uuid >/one\n"
        "- copy: {from: app, to: /app}\n- run: cat /proc/sys/kernel/random/uuid >/two\n");
    const auto value = [&](const std::string& name, const std::string& file) {
      const Outcome o = made.run(name, {"cat", file});
      INFO(o.show());
      CHECK(o.code == 0);
      return o.out;
    };
    REQUIRE(made.build("a").code == 0);
    const Outcome again = made.build("b");
    INFO(again.show());
    REQUIRE(again.code == 0);
    CHECK(contains(again.err, "[3/3]"));
    CHECK(contains(again.err, "(kept)"));
    CHECK(value("b", "/one") == value("a", "/one"));
    CHECK(value("b", "/two") == value("a", "/two"));
    CHECK(made.images.show("a", "/id") == made.images.show("b", "/id"));

    made.images.shell("echo 2 >app/f");
    REQUIRE(made.build("c").code == 0);
    CHECK(value("c", "/one") == value("a", "/one"));
    CHECK(value("c", "/two") != value("a", "/two"));
    CHECK(value("c", "/app/f") == "2\n");

    REQUIRE(made.build("d", {"--no-cache"}).code == 0);
    CHECK(value("d", "/one") != value("a", "/one"));
  }

  TEST_CASE("image build: a step that fails says its line and status; what was made is kept") {
    SKIP_UNLESS("image-ids");
    const Made made;
    made.recipe("from: small\nsteps:\n- run: touch /a\n- run: echo broken >&2; exit 7\n");
    const Outcome failed = made.build("app");
    INFO(failed.show());
    CHECK(failed.code == 1);
    CHECK(failed.out.empty());
    CHECK(contains(failed.err, "broken"));
    CHECK(contains(failed.err, "line 4: run"));
    CHECK(contains(failed.err, "exit status 7"));
    CHECK(made.images.call({"ls", "-q"}).out == "small\n");
    CHECK(made.images.sbx({"session", "ls", "-q"}).out.empty());
    made.recipe("from: small\nsteps:\n- run: touch /a\n- run: test -e /a || exit 7\n");
    const Outcome mended = made.build("app");
    INFO(mended.show());
    CHECK(mended.code == 0);
    CHECK(contains(mended.err, "[1/2] run touch /a (kept)"));
  }

  TEST_CASE("image build: mistakes are found before anything is started") {
    SKIP_UNLESS("image-ids");
    const Made made;
    struct Case {
      std::string recipe;
      std::string says;
    };
    for (const Case& each :
         {Case{"from: nope\nsteps: []\n", "nope"},
          Case{"from: small\nsteps:\n- rnu: x\n", "did you mean \"run\""},
          Case{"from: small\nsteps:\n- copy: {from: missing, to: /x}\n", "missing"},
          Case{"from: small\nnetwork: open\n", "network"}}) {
      made.recipe(each.recipe);
      const Outcome o = made.build("app");
      INFO(o.show());
      CHECK(o.code == 2);
      CHECK(contains(o.err, each.says));
    }
    made.images.shell("ln -s /etc out");
    made.recipe("from: small\nsteps:\n- copy: {from: out/passwd, to: /x}\n");
    const Outcome out = made.build("app");
    INFO(out.show());
    CHECK(out.code == 2);
    CHECK(made.images.call({"ls", "-q"}).out == "small\n");
  }

  TEST_CASE("image build: one that is killed leaves whole images only, and the next one goes on") {
    SKIP_UNLESS("image-ids");
    const Made made;
    made.recipe("from: small\nsteps:\n- run: touch /a\n- run: sleep 30\n");
    Args args{"build", "app", "-f", made.images.dir().at("recipe.yaml")};
    Child child(made.images.spec(args));
    const bool came = comes_true([&] {
      return contains(made.images.sbx({"session", "ls", "-q"}).out, "build-");
    });
    CHECK(came);
    child.kill(SIGKILL);
    (void)child.wait();
    CHECK(made.images.call({"ls", "-q"}).out == "small\n");
    made.recipe("from: small\nsteps:\n- run: touch /a\n- run: touch /b\n");
    const Outcome next = made.build("app");
    INFO(next.show());
    CHECK(next.code == 0);
    CHECK(made.run("app", {"ls", "/a", "/b"}).code == 0);
    for (const std::string& name : lines_of(made.images.sbx({"session", "ls", "-q"}).out)) {
      CHECK(made.images.sbx({"session", "rm", "-f", name}).code == 0);
    }
  }

  TEST_CASE("image build: from scratch it has what is copied, and nothing else") {
    SKIP_UNLESS("image-ids");
    const Made made;
    made.images.shell("mkdir bin; cp /bin/busybox bin/busybox");
    made.recipe(
        "from: scratch\nsteps:\n- copy: {from: bin, to: /bin}\n- run: [/bin/busybox, touch, "
        "/made]\n");
    const Outcome built = made.build("app");
    INFO(built.show());
    REQUIRE(built.code == 0);
    const Outcome o = made.run("app", {"/bin/busybox", "ls", "/made", "/bin"});
    INFO(o.show());
    CHECK(o.out == "/made\n\n/bin:\nbusybox\n");
  }
}

}  // namespace sbx::test
