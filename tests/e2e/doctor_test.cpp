// doctor_test: what `sbx doctor` says of the host that the test runs on, and of broken ones.
#include <csignal>
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// The status of a row in the JSON object.
std::string status_of(const std::string& json, const std::string& row) {
  for (int i = 0; i < 64; ++i) {
    const std::string at = "/checks/" + std::to_string(i);
    if (field(json, at + "/name") == row) return field(json, at + "/status");
  }
  return "";
}

Outcome doctor_with(const std::string& variable, const Args& words) {
  Args args{"doctor"};
  args.insert(args.end(), words.begin(), words.end());
  Spec spec = sbx_spec(args);
  spec.env = {variable};
  for (const std::string& other : environment_of(subject())) {
    const std::string name = other.substr(0, other.find('=') + 1);
    if (!variable.starts_with(name)) spec.env.push_back(other);
  }
  return run(spec);
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("doctor: says that run works where it does, with status 0, and leaves nothing") {
    SKIP_UNLESS("userns");
    REQUIRE(bash("true").code == 0);
    const LeakCheck check;
    const Outcome o = call({"doctor"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.err.empty());
    CHECK(contains(o.out, "ok    run "));
    CHECK(contains(o.out, "\nsbx run works here"));
    CHECK_FALSE(contains(o.out, "\x1b"));
    CHECK(joined(check.left()) == "");
  }

  TEST_CASE("doctor: --json is one object, and a row's answer is what a run shows") {
    SKIP_UNLESS("userns");
    const Outcome o = call({"doctor", "--json"});
    INFO(o.show());
    CHECK(field(o.out, "/schema") == "1");
    CHECK(field(o.out, "/run_works") == "true");
    const bool has_memory = bash("true", {"-m", "64M"}).code == 0;
    CHECK((status_of(o.out, "cgroup-memory") == "ok") == has_memory);
    for (const char* const row : {"kernel", "user-namespaces", "run", "seccomp", "state-dir"}) {
      CAPTURE(row);
      CHECK(status_of(o.out, row) == "ok");
    }
  }

  TEST_CASE("doctor: words choose rows, one that does not exist is a mistake with a proposal") {
    const Outcome o = call({"doctor", "kernel", "disk"});
    CHECK(o.code == 0);
    CHECK(lines_of(o.out).size() == 4);  // two rows, an empty line, the summary
    const Outcome wrong = call({"doctor", "kernal"});
    CHECK(wrong.code == 2);
    CHECK(contains(wrong.err, "did you mean kernel?"));
  }

  TEST_CASE("doctor: a state directory that cannot be used makes run fail, and it says so") {
    const Outcome o = doctor_with("SBX_STATE_DIR=/proc/nowhere", {"run", "state-dir"});
    INFO(o.show());
    CHECK(o.code == 1);
    CHECK(contains(o.out, "sbx run does not work here: run; look at: state-dir"));
    CHECK(contains(o.out, "cause: SBX_STATE_DIR: "));
  }

  TEST_CASE("doctor: too few descriptors are named, not an error of their own") {
    const Outcome o =
        run({.argv = {"/bin/sh", "-c", "ulimit -n 40; exec \"$0\" doctor resources", sbx_path()},
             .as = &subject()});
    INFO(o.show());
    CHECK(o.code == 1);
    CHECK(contains(o.out, "fix:   ulimit -n 1024"));
  }

  TEST_CASE("doctor: an interpreter of the user's own is named") {
    SKIP_UNLESS("python");
    const WorkDir dir;
    dir.write("python3", "#!/bin/sh\n", 0755);
    const Outcome o = doctor_with("PATH=" + dir.path() + ":/usr/bin:/bin", {"programs"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(contains(o.out, dir.at("python3")));
    CHECK(contains(o.out, "/usr/bin/python3"));
  }

  TEST_CASE("doctor: --apparmor-profile names the program that was asked") {
    const Outcome o = call({"doctor", "--apparmor-profile"});
    CHECK(o.code == 0);
    CHECK(contains(o.out, "profile sbx \"" + sbx_path() + "\" flags=(unconfined)"));
  }

  TEST_CASE("doctor: killed at any moment it leaves nothing after the next command") {
    REQUIRE(call({"doctor"}).code == 0);
    const LeakCheck check;
    for (int ms = 1; ms<60; ms += slowness()> 1 ? 17 : 4) {
      Child child(sbx_spec({"doctor"}));
      pause(ms * 0.001 * slowness());
      child.kill(SIGKILL);
      child.wait();
    }
    pause(1.0 * slowness());
    CHECK(call({"version"}).code == 0);
    CHECK(joined(check.left_after_kill()) == "");
  }
}

}  // namespace sbx::test
