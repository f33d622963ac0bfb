// gc_test: `sbx gc` finds what a killed sbx left, says why, removes it, and leaves the rest alone.
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

Outcome gc_in(const std::string& state_dir, const Args& flags = {}) {
  Args args{"gc"};
  args.insert(args.end(), flags.begin(), flags.end());
  Spec spec = sbx_spec(args);
  spec.env = environment_of(subject());
  spec.env.push_back("SBX_STATE_DIR=" + state_dir);
  return run(spec);
}

/// A temporary file of the state directory `dir`.
std::string leave_temporary(const WorkDir& dir, const std::string& name) {
  run({.argv = {"/bin/mkdir", "-p", "-m", "700", dir.at("state/trust")}, .as = &subject()});
  return dir.write("state/trust/" + name, "half", 0600);
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("gc: nothing is left after a run, and it says so") {
    REQUIRE(call({"version"}).code == 0);
    REQUIRE(bash("true").code == 0);
    const Outcome o = call({"gc"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out == "nothing is left\n");
    CHECK(field(call({"gc", "--json"}).out, "/leftovers") == "[]");
  }

  TEST_CASE("gc: a killed run's cgroup is shown by --dry-run, which leaves it, then removed") {
    SKIP_UNLESS("cgroup-memory");
    REQUIRE(bash("true").code == 0);
    const LeakCheck check;
    {
      Child child(sbx_spec(bash_args("echo ready; sleep 100", {"-m", "64M"})));
      REQUIRE(child.wait_for_text("ready", 30));
      child.kill(SIGKILL);
      child.wait();
    }
    for (int i = 0; i < 2; ++i) {
      const Outcome dry = call({"gc", "--dry-run", "--json"});
      INFO(dry.show());
      CHECK(dry.code == 0);
      CHECK(field(dry.out, "/leftovers/0/kind") == "cgroup");
      CHECK(field(dry.out, "/leftovers/0/removed") == "false");
      CHECK(contains(field(dry.out, "/leftovers/0/why"), "is gone"));
    }
    const Outcome o = call({"gc"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(contains(o.out, "removed cgroup "));
    CHECK(joined(check.left_after_kill()) == "");
  }

  TEST_CASE("gc: what belongs to a living run stays, also while that is stopped") {
    SKIP_UNLESS("cgroup-memory");
    Child child(sbx_spec(bash_args("echo ready; sleep 100", {"-m", "64M"})));
    REQUIRE(child.wait_for_text("ready", 30));
    child.kill(SIGSTOP);
    const Outcome o = call({"gc", "--json"});
    INFO(o.show());
    CHECK(field(o.out, "/leftovers") == "[]");
    CHECK(child.running());
    child.kill(SIGCONT);
    CHECK(child.running());
  }

  TEST_CASE("gc: a young temporary file may be somebody's, and other names are never touched") {
    REQUIRE(call({"version"}).code == 0);  // after what an earlier case killed
    const WorkDir dir;
    leave_temporary(dir, ".sbx-abcdefghijklmnop");
    leave_temporary(dir, "mine");
    CHECK(gc_in(dir.at("state")).out == "nothing is left\n");
    CHECK(names_in(dir.at("state/trust")).size() == 2);
  }

  TEST_CASE("gc: a state directory that cannot be used is said, the rest is done") {
    const Outcome o = gc_in("/proc/nowhere");
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(contains(o.err, "sbx: warning: files of the state directory were left out: "));
    CHECK(contains(field(gc_in("/proc/nowhere", {"--json"}).out, "/state_dir_problem"), "/proc"));
  }

  TEST_CASE("gc: several at once all end well, with everything gone") {
    SKIP_UNLESS("cgroup-memory");
    REQUIRE(bash("true").code == 0);
    const LeakCheck check;
    for (int i = 0; i < 4; ++i) {
      Child child(sbx_spec(bash_args("echo ready; sleep 100", {"-m", "64M"})));
      REQUIRE(child.wait_for_text("ready", 30));
      child.kill(SIGKILL);
      child.wait();
    }
    std::vector<std::unique_ptr<Child>> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(std::make_unique<Child>(sbx_spec({"gc"})));
    }
    for (const auto& child : all) {
      const Outcome o = child->wait();
      INFO(o.show());
      CHECK(o.code == 0);
    }
    CHECK(joined(check.left_after_kill()) == "");
  }
}

}  // namespace sbx::test
