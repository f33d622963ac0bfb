// leaks_test: after each kind of end the host is as before: processes, mounts, groups and files.
#include "tests/support/leaks.h"

#include <sys/wait.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

TEST_SUITE("leaks") {
  TEST_CASE("leaks: nothing is left after runs of every outcome") {
    REQUIRE(bash("true").code == 0);  // makes what is made once: the state directory
    const WorkDir dir;
    const LeakCheck check;
    bash("true");
    bash("exit 7");
    bash("kill -9 $$");
    bash("sleep 60", {"--timeout", "1s"});
    command({"no-such-program"});
    call({"run", "-p", "no-such-profile", "-c", "1"});
    bash("true", {"-o", dir.at("out")});
    bash("true", {"-o", "/proc/nowhere"});
    bash("true", {"-i", dir.at("missing")});
    bash("(setsid sleep 100 &) ; exit 3");
    bash("head -c 5000000 /dev/zero", {"--set", "limits.output=1M"});
    if (have("cgroup-memory")) {
      python("x = b'x' * (1 << 30)", {"-m", "64M"});
    }
    CHECK(joined(check.left()) == "");
  }

  TEST_CASE("leaks: after kill -9, also of a stopped sbx, the next command leaves nothing") {
    REQUIRE(bash("true").code == 0);
    const LeakCheck check;
    for (const bool stopped : {false, true}) {
      Child child(sbx_spec(bash_args("(setsid sleep 100 &); echo ready; sleep 100")));
      REQUIRE(child.wait_for_text("ready", 30));
      if (stopped) {
        child.kill(SIGSTOP);
      }
      child.kill(SIGKILL);
      child.wait();
    }
    pause(1.0 * slowness());
    for (const auto& line : descendants()) {
      INFO(line);
      CHECK(contains(line, ") Z"));
    }
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    CHECK(call({"version"}).code == 0);
    CHECK(joined(check.left()) == "");
  }

  TEST_CASE(
      "leaks: kill -9 at any moment of a start or an end leaves nothing after the next command") {
    REQUIRE(bash("true").code == 0);
    const LeakCheck check;
    for (int ms = 1; ms<60; ms += slowness()> 1 ? 13 : 2) {
      Child child(sbx_spec(bash_args("head -c 100000 /dev/zero > f")));
      pause(ms * 0.001 * slowness());
      child.kill(SIGKILL);
      child.wait();
    }
    pause(1.0 * slowness());
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    CHECK(call({"version"}).code == 0);
    CHECK(joined(check.left()) == "");
  }

  TEST_CASE("leaks: parallel runs that end in different ways leave nothing") {
    REQUIRE(bash("true").code == 0);
    const LeakCheck check;
    const std::string limit = std::to_string(static_cast<int>(2 * slowness())) + "s";
    std::vector<std::unique_ptr<Child>> jobs;
    for (int i = 0; i < 12; ++i) {
      const char* const code = i % 3 == 0 ? "exit 3" : i % 3 == 1 ? "kill -SEGV $$" : "sleep 300";
      jobs.push_back(std::make_unique<Child>(sbx_spec(bash_args(code, {"--timeout", limit}))));
    }
    for (int i = 0; i < 12; ++i) {
      const Outcome o = jobs[static_cast<size_t>(i)]->wait();
      INFO(o.show());
      CHECK(o.code == (i % 3 == 0 ? 3 : i % 3 == 1 ? 139 : 124));
    }
    CHECK(joined(check.left()) == "");
  }
}

}  // namespace sbx::test
