// session_pause_test: what stands still in a pause, what works all the same, and how a stop goes.
#include <csignal>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/e2e/sessions.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// Lines that a program "s" writes into /work/ticks, as the host sees them in the layers.
std::size_t ticks(const Sessions& sessions) {
  const Outcome o = run({.argv = {"/usr/bin/find",
                                  sessions.state_dir() + "/layers",
                                  "-name",
                                  "ticks",
                                  "-exec",
                                  "cat",
                                  "{}",
                                  "+"}});
  return lines_of(o.out).size();
}

constexpr std::string_view kTick = "while :; do echo x >>ticks; sleep 0.02; done";

}  // namespace

TEST_SUITE("session") {
  TEST_CASE("session pause: programs stand still, their clients wait, all go on after resume") {
    const Sessions sessions;
    sessions.start("s");
    Child child(sessions.spec(Sessions::exec_args(
        "s", "echo up; for i in $(seq 40); do echo x >>ticks; sleep 0.05; done; exit 3")));
    REQUIRE(child.wait_for_text("up", 30));
    REQUIRE(comes_true([&] { return ticks(sessions) > 3; }));
    CHECK(sessions.call({"pause", "s"}).code == 0);
    CHECK(sessions.state("s") == "paused");
    CHECK(sessions.call({"pause", "s"}).code == 0);
    const std::size_t before = ticks(sessions);
    pause(0.5);
    CHECK(ticks(sessions) == before);
    CHECK(before < 40);
    CHECK(child.running());
    CHECK(sessions.call({"resume", "s"}).code == 0);
    CHECK(sessions.call({"resume", "s"}).code == 0);
    CHECK(sessions.state("s") == "running");
    CHECK(child.wait().code == 3);
    CHECK(ticks(sessions) == 40);
  }

  TEST_CASE("session pause: a time limit stands still") {
    const Sessions sessions;
    sessions.start("s");
    Child child(
        sessions.spec(Sessions::exec_args("s", "echo up; sleep 2.5; exit 3", {"--timeout", "6s"})));
    REQUIRE(child.wait_for_text("up", 30));
    CHECK(sessions.call({"pause", "s"}).code == 0);
    pause(7);
    CHECK(sessions.call({"resume", "s"}).code == 0);
    CHECK(child.wait().code == 3);
  }

  TEST_CASE("session pause: exec resumes, --no-start fails at once and leaves it paused") {
    const Sessions sessions;
    sessions.start("s");
    CHECK(sessions.call({"pause", "s"}).code == 0);
    const Outcome refused = sessions.exec("s", "echo x", {"--no-start"});
    INFO(refused.show());
    CHECK(refused.code == 125);
    CHECK(contains(refused.err, "paused"));
    CHECK(contains(refused.err, "sbx session resume s"));
    CHECK(sessions.state("s") == "paused");
    CHECK(sessions.exec("s", "echo x").out == "x\n");
    CHECK(sessions.state("s") == "running");
    CHECK(sessions.call({"stop", "s"}).code == 0);
    const Outcome stopped = sessions.exec("s", "echo x", {"--no-start"});
    CHECK(stopped.code == 125);
    CHECK(contains(stopped.err, "sbx session start s"));
    CHECK(sessions.state("s") == "stopped");
  }

  TEST_CASE("session pause: a paused one can be killed in, stopped and removed") {
    const Sessions sessions;
    const LeakCheck check;
    sessions.start("s");
    Child child(sessions.spec(Sessions::exec_args("s", "echo up; exec sleep 1000")));
    REQUIRE(child.wait_for_text("up", 30));
    CHECK(sessions.call({"pause", "s"}).code == 0);
    CHECK(sessions.call({"kill", "s", "1", "-s", "KILL"}).code == 0);
    CHECK(child.wait().code == 137);
    CHECK(sessions.state("s") == "paused");
    sessions.call({"resume", "s"});
    sessions.detached("s",
                      "trap 'echo term >term; exit' TERM; echo >up; while :; do sleep 0.05; done");
    CHECK(sessions.comes("s", "[ -e up ]"));
    CHECK(sessions.call({"pause", "s"}).code == 0);
    CHECK(sessions.call({"stop", "s"}).code == 0);
    CHECK(sessions.exec("s", "cat term").out == "term\n");
    sessions.detached("s", "trap '' TERM; sleep 1000; sleep 1000");
    CHECK(sessions.call({"pause", "s"}).code == 0);
    const Outcome gone = sessions.call({"rm", "-f", "s"});
    INFO(gone.show());
    CHECK(gone.code == 0);
    CHECK(gone.seconds < 2 * slowness());
    CHECK(joined(check.left_after_kill()) == "");
  }

  TEST_CASE("session stop: programs get SIGTERM, deaf ones end with the grace, rm needs -f") {
    const Sessions sessions;
    sessions.start("s");
    sessions.detached("s",
                      "trap 'echo term >term; exit' TERM; echo >up; while :; do sleep 0.05; done");
    CHECK(sessions.comes("s", "[ -e up ]"));
    CHECK(sessions.call({"stop", "s"}).code == 0);
    CHECK(sessions.exec("s", "cat term").out == "term\n");
    Child child(sessions.spec(
        Sessions::exec_args("s", "trap '' TERM HUP INT; echo up; while :; do sleep 0.1; done")));
    REQUIRE(child.wait_for_text("up", 30));
    const Outcome refused = sessions.call({"rm", "s"});
    CHECK(refused.code != 0);
    CHECK(contains(refused.err, "sbx session rm -f s"));
    const Outcome stopped = sessions.call({"stop", "s", "--time", "300ms"});
    INFO(stopped.show());
    CHECK(stopped.code == 0);
    CHECK(stopped.seconds < 5 * slowness());
    const Outcome told = child.wait();
    INFO(told.show());
    CHECK(told.code != 0);
    CHECK(!told.timed_out);
    CHECK(sessions.call({"stop", "s"}).code == 0);
    CHECK(sessions.call({"rm", "s"}).code == 0);
  }

  TEST_CASE(
      "session checkpoint: a running one stands still for it and goes on, paused ones stay so") {
    const Sessions sessions;
    sessions.start("s");
    sessions.detached("s", kTick);
    REQUIRE(comes_true([&] { return ticks(sessions) > 3; }));
    CHECK(sessions.call({"checkpoint", "s", "a"}).code == 0);
    const std::size_t then = ticks(sessions);
    CHECK(comes_true([&] { return ticks(sessions) > then; }));
    CHECK(sessions.call({"pause", "s"}).code == 0);
    const Outcome o = sessions.call({"checkpoint", "s", "b", "--json"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(sessions.state("s") == "paused");
    const std::size_t still = ticks(sessions);
    pause(0.3);
    CHECK(ticks(sessions) == still);
    CHECK(sessions.call({"resume", "s"}).code == 0);
    CHECK(comes_true([&] { return ticks(sessions) > still; }));
  }
}

}  // namespace sbx::test
