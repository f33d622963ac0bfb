// session_script_test: a day of one workspace from its first command to its removal.
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/e2e/sessions.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// A repository with a program of forty parts that says how many it has.
void make_repository(const std::string& dir) {
  const std::string script =
      "set -e; mkdir \"$0\"; cd \"$0\"; git init -q -b main .\n"
      "for i in $(seq 40); do echo \"int part$i(void) { return 1; }\" >part$i.c; done\n"
      "{ for i in $(seq 40); do echo \"int part$i(void);\"; done; echo '#include <stdio.h>'\n"
      "echo 'int main(void) { int n = 0;'; for i in $(seq 40); do echo \"n += part$i();\"; done\n"
      "echo 'printf(\"%d parts\\n\", n); return 0; }'; } >main.c\n"
      "{ echo 'for f in part*.c main.c; do gcc -O2 -c $f; echo built $f; done'\n"
      "echo 'gcc -o prog *.o; echo linked'; } >build.sh\n"
      "git add .; git -c user.name=t -c user.email=t@localhost commit -qm first";
  const Outcome o = run({.argv = {"/bin/bash", "-c", script, dir}, .as = &subject()});
  INFO(o.show());
  REQUIRE(o.code == 0);
}

void check_ok(const Outcome& o) {
  INFO(o.show());
  CHECK(o.code == 0);
}

}  // namespace

TEST_SUITE("session") {
  TEST_CASE("session: clone, build through a pause, stop, go back, fork, remove") {
    const Sessions sessions;
    make_repository(sessions.dir().at("repo"));
    sessions.start("first");
    check_ok(sessions.call({"rm", "-f", "first"}));
    const std::string tree = "find \"$0\" -printf '%P %y %s %m %U\\n'";
    const Spec look{.argv = {"/bin/sh", "-c", tree, sessions.state_dir()}};
    const std::string before = run(look).out;
    const LeakCheck check;

    check_ok(sessions.call({"start", "dev", "-v", sessions.dir().at("repo") + ":/src:ro"}));
    check_ok(sessions.exec("dev", "git clone -q /src app && ls app/build.sh"));
    const std::string id = sessions.detached("dev", "cd app && sh build.sh");
    REQUIRE(sessions.comes("dev", "[ -e app/part5.o ]"));
    check_ok(sessions.call({"pause", "dev"}));
    const std::string built = sessions.call({"logs", "dev", id}).out;
    pause(1);
    CHECK(sessions.call({"logs", "dev", id}).out == built);
    CHECK(sessions.state("dev") == "paused");
    check_ok(sessions.call({"resume", "dev"}));
    check_ok(sessions.call({"wait", "dev", id}));
    CHECK(sessions.exec("dev", "app/prog").out == "40 parts\n");

    check_ok(sessions.call({"stop", "dev"}));
    const Outcome logs = sessions.call({"logs", "dev", id});
    CHECK(lines_of(logs.out).size() == 42);
    CHECK(lines_of(logs.out).back() == "linked");
    check_ok(sessions.call({"start", "dev"}));
    CHECK(sessions.exec("dev", "app/prog; cd app && git status --short | grep -c '\\.o$'").out ==
          "40 parts\n41\n");

    check_ok(sessions.call({"checkpoint", "dev", "good"}));
    check_ok(sessions.exec("dev", "rm -rf app/.git app/*.c; echo broken >app/prog; ln -s / app/x"));
    CHECK(sessions.exec("dev", "app/prog").out != "40 parts\n");
    CHECK(sessions.call({"diff", "dev", "--since", "good", "/work/app/prog", "/work/app/x"}).out ==
          "M /work/app/prog\nA /work/app/x\n");
    const Outcome sources = sessions.call({"diff", "dev", "--since", "good", "/work/app/*.c"});
    REQUIRE(lines_of(sources.out).size() == 41);
    CHECK(lines_of(sources.out).front() == "D /work/app/main.c");
    check_ok(sessions.call({"restore", "dev", "good"}));
    CHECK(sessions.call({"diff", "dev", "--since", "good"}).out.empty());
    CHECK(sessions.exec("dev", "cd app; ./prog; git fsck && git diff --quiet && echo same").out ==
          "40 parts\nsame\n");

    check_ok(sessions.call({"fork", "dev", "try", "--count", "16"}));
    for (int i = 1; i <= 16; ++i) {
      const std::string name = "try-" + std::to_string(i);
      CHECK(sessions.exec(name, "echo " + name + " >app/mine; app/prog").out == "40 parts\n");
    }
    CHECK(sessions.exec("dev", "ls app/mine").code != 0);
    for (int i = 1; i <= 16; ++i) {
      const std::string name = "try-" + std::to_string(i);
      CHECK(sessions.exec(name, "cat app/mine").out == name + "\n");
    }
    for (const std::string& name : lines_of(sessions.call({"ls", "-q"}).out)) {
      check_ok(sessions.call({"rm", "-f", name}));
    }
    CHECK(run(look).out == before);
    CHECK(joined(check.left_after_kill()) == "");
  }
}

}  // namespace sbx::test
