// agent_test: the profile of development workspaces, and what one-shot runs make of session keys.
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

TEST_SUITE("jail") {
  TEST_CASE("agent: git makes, commits to and clones a repository in the workspace") {
    SKIP_UNLESS("git");
    const Outcome o = call({"run",
                            "-p",
                            "agent",
                            "-c",
                            "set -e\n"
                            "git init -q a && cd a && echo one >f && git add f\n"
                            "git commit -q -m first && cd .. && git clone -q a b\n"
                            "git -C b log --format='%s by %ae'\n"
                            "git -C b -c user.email=me@example.org commit -q --allow-empty -m x\n"
                            "git -C b log -1 --format=%ae\n"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out == "first by sbx@localhost\nme@example.org\n");
  }

  TEST_CASE("agent: git works in a mounted repository, whoever owns it") {
    SKIP_UNLESS("git");
    const WorkDir dir;
    const Outcome made = run({.argv = {"/bin/sh", "-c", "git init -q r && chmod -R a+rX r"},
                              .cwd = dir.path(),
                              .as = &subject()});
    INFO(made.show());
    REQUIRE(made.code == 0);
    const Outcome o = call({"run",
                            "-p",
                            "agent",
                            "-v",
                            dir.at("r") + ":/repo",
                            "--",
                            "git",
                            "-C",
                            "/repo",
                            "status",
                            "--short"});
    INFO(o.show());
    CHECK(o.code == 0);
  }

  TEST_CASE("agent: the host's compiler builds and make runs what it built") {
    SKIP_UNLESS("c");
    const Outcome o = call({"run",
                            "-p",
                            "agent",
                            "-c",
                            "printf 'int main(void){return 7;}' >a.c && gcc -o a a.c && ./a\n"});
    INFO(o.show());
    CHECK(o.code == 7);
  }

  TEST_CASE("agent: home and editor are set, and there is no time limit") {
    const Outcome o = call({"run", "-p", "agent", "-c", "echo $HOME $EDITOR"});
    INFO(o.show());
    CHECK(o.out == "/home/sbx vi\n");
    const Outcome json = call({"run", "-p", "agent", "--json", "-c", "true"});
    CHECK(field(json.out, "/cause") == "exited");
    CHECK(field(json.out, "/limits_in_force/timeout").empty());
  }

  TEST_CASE("agent: run starts no services and takes labels and session settings in silence") {
    const Outcome o = call({"run",
                            "--set",
                            "services.web={command: [touch, /work/started], restart: always}",
                            "--set",
                            "session.ttl=1s",
                            "--set",
                            "labels.team=core",
                            "-p",
                            "bash",
                            "-c",
                            "ls -A /work; ps -e 2>/dev/null | grep -c touch"});
    INFO(o.show());
    CHECK(!contains(o.out, "started"));
    CHECK(without_warnings(o.err).empty());
  }
}

}  // namespace sbx::test
