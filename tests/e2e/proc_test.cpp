// proc_test: signals, time-outs and process trees: the job ends as a whole, sbx says how.
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

/// A tree that is hard to end: ignores SIGTERM, and has setsid children that forked twice.
const char* const kStubborn =
    "trap '' TERM INT HUP; "
    "(setsid bash -c 'trap \"\" TERM; (sleep 300 & sleep 301) & sleep 302' &) ; "
    "(setsid sleep 303 &); echo ready; while :; do sleep 304; done";

/// Sends `sig` to sbx once the job said "ready".
Outcome interrupted(const std::string& code, int sig) {
  Child child(sbx_spec(bash_args(code)));
  REQUIRE(child.wait_for_text("ready", 30));
  child.kill(sig);
  return child.wait();
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("proc: SIGINT to sbx ends a plain program at once with 130") {
    const Outcome o = interrupted("echo ready; exec sleep 100", SIGINT);
    INFO(o.show());
    CHECK(o.code == 130);
    CHECK(o.seconds < 10 * slowness());
  }

  TEST_CASE("proc: SIGTERM to sbx ends a plain program at once with 143") {
    const Outcome o = interrupted("echo ready; exec sleep 100", SIGTERM);
    INFO(o.show());
    CHECK(o.code == 143);
    CHECK(o.seconds < 10 * slowness());
  }

  TEST_CASE("proc: SIGHUP to sbx ends the job too") {
    const Outcome o = interrupted("echo ready; exec sleep 100", SIGHUP);
    INFO(o.show());
    CHECK(!o.timed_out);
    CHECK((o.code == 129 || o.signal == SIGHUP));
  }

  TEST_CASE("proc: an interrupted run says so in JSON") {
    Child child(sbx_spec(bash_args("echo ready; sleep 100", {"--json"})));
    pause(1.0 * slowness());
    child.kill(SIGTERM);
    const Outcome o = child.wait();
    INFO(o.show());
    CHECK(o.code == 143);
    CHECK(field(o.out, "/cause") == "interrupted");
  }

  TEST_CASE("proc: a job that ignores signals ends all the same, and nothing of it stays") {
    const LeakCheck check;
    for (const int sig : {SIGTERM, SIGINT}) {
      const Outcome o = interrupted(kStubborn, sig);
      INFO(o.show());
      CHECK(o.code == 128 + sig);
      CHECK(o.seconds < 12 * slowness());
      CHECK(joined(descendants()) == "");
    }
  }

  TEST_CASE("proc: the job sees SIGTERM first when its time is up") {
    const Outcome o = bash("trap 'echo told; exit 5' TERM; while :; do sleep 0.1; done",
                           {"--timeout", "1s", "--json"});
    INFO(o.show());
    CHECK(o.code == 124);
    CHECK(field(o.out, "/stdout") == "told\n");
    CHECK(field(o.out, "/cause") == "timeout");
  }

  TEST_CASE("proc: time-out ends TERM-ignoring, double-forked setsid children") {
    const LeakCheck check;
    const Outcome o = bash(kStubborn, {"--timeout", "1s"});
    INFO(o.show());
    CHECK(o.code == 124);
    CHECK(o.seconds < 8 * slowness());
    CHECK(joined(descendants()) == "");
  }

  TEST_CASE("proc: kill -9 of sbx leaves nothing alive after one second") {
    const LeakCheck check;
    Child child(sbx_spec(bash_args(kStubborn)));
    REQUIRE(child.wait_for_text("ready", 30));
    child.kill(SIGKILL);
    CHECK(child.wait().signal == SIGKILL);
    pause(1.0 * slowness());
    // What is dead but not reaped has us as its parent: only the living count.
    for (const auto& line : descendants()) {
      INFO(line);
      CHECK(contains(line, ") Z"));
    }
  }

  TEST_CASE("proc: kill -9 of a stopped sbx leaves nothing alive after one second") {
    const LeakCheck check;
    Child child(sbx_spec(bash_args(kStubborn)));
    REQUIRE(child.wait_for_text("ready", 30));
    child.kill(SIGSTOP);
    pause(0.2);
    child.kill(SIGKILL);
    CHECK(child.wait().signal == SIGKILL);
    pause(1.0 * slowness());
    for (const auto& line : descendants()) {
      INFO(line);
      CHECK(contains(line, ") Z"));
    }
  }

  TEST_CASE("proc: kill -9 of sbx while it starts leaves nothing alive") {
    const LeakCheck check;
    for (int ms = 1; ms<40; ms += slowness()> 1 ? 12 : 3) {
      Child child(sbx_spec(command_args({"sleep", "100"})));
      pause(ms * 0.001 * slowness());
      child.kill(SIGKILL);
      child.wait();
    }
    pause(1.0 * slowness());
    for (const auto& line : descendants()) {
      INFO(line);
      CHECK(contains(line, ") Z"));
    }
  }

  TEST_CASE("proc: children that outlive the main program are ended with it") {
    const LeakCheck check;
    const Outcome o = bash("(setsid sleep 300 &); (sleep 301 &); echo main-done");
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(joined(descendants()) == "");
  }

  TEST_CASE("proc: no zombie is left in our parent, and none gathers inside") {
    const LeakCheck check;
    for (int i = 0; i < (slowness() > 1 ? 5 : 30); ++i) {
      REQUIRE(bash("true").code == 0);
    }
    CHECK(joined(descendants()) == "");
    const Outcome o = bash(
        "for i in 1 2 3 4 5 6 7 8; do (setsid true &); done; sleep 0.5; "
        "grep -l 'State:.Z' /proc/[0-9]*/status | wc -l");
    INFO(o.show());
    CHECK(trimmed(o.out) == "0");
  }

  TEST_CASE("proc: inside there are only the job's own processes") {
    const Outcome o = bash("ls -d /proc/[0-9]* | wc -l; echo $$");
    INFO(o.show());
    const auto lines = lines_of(o.out);
    REQUIRE(lines.size() == 2);
    CHECK(std::stoi(lines[0]) < 8);
    CHECK(std::stoi(lines[1]) < 20);
  }

  TEST_CASE("proc: the first process inside cannot be ended from inside") {
    const Outcome o = bash("kill -9 1; kill -TERM 1; kill -INT 1; sleep 0.2; echo alive");
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out == "alive\n");
  }

  TEST_CASE("proc: signals that our parent ignores or blocks are normal inside") {
    // The shell ignores them before it becomes sbx; bash inside shows what it got.
    Spec spec = sbx_spec({});
    spec.argv = {"/usr/bin/python3",
                 "-c",
                 "import os, signal, sys\n"
                 "for s in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGUSR1):\n"
                 "    signal.signal(s, signal.SIG_IGN)\n"
                 "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n"
                 "os.execv(sys.argv[1], sys.argv[1:])",
                 sbx_path(),
                 "run",
                 "-p",
                 "bash",
                 "--timeout",
                 "20s",
                 "-c",
                 "grep -E 'SigBlk|SigIgn' /proc/self/status; exit 4"};
    const Outcome o = run(spec);
    INFO(o.show());
    CHECK(o.code == 4);
    CHECK(contains(o.out, "SigBlk:\t0000000000000000"));
    CHECK(contains(o.out, "SigIgn:\t0000000000000000"));
  }

  TEST_CASE("proc: a time-out also holds when our parent blocked or ignored everything") {
    Spec spec = sbx_spec({});
    spec.argv = {"/bin/bash",
                 "-c",
                 "trap '' CHLD TERM ALRM PIPE; exec \"$0\" \"$@\"",
                 sbx_path(),
                 "run",
                 "-p",
                 "bash",
                 "--timeout",
                 "1s",
                 "-c",
                 "sleep 60"};
    const Outcome o = run(spec);
    INFO(o.show());
    CHECK(o.code == 124);
  }

  TEST_CASE("proc: a fork bomb is held by the process limit and ended by the time limit") {
    const LeakCheck check;
    const Outcome o = bash("f() { f | f & f; }; f; sleep 60",
                           {"--timeout", "3s", "--set", "limits.output=1M", "--json"});
    INFO(o.show().substr(0, 2000));
    CHECK(o.code > 0);
    CHECK(!o.timed_out);
    CHECK(o.seconds < 20 * slowness());
    CHECK(joined(descendants()) == "");
  }

  TEST_CASE(
      "proc: a fork bomb that nobody limited by flag meets the default limit, and it is told") {
    const Outcome o = python(
        "import os, sys, time\nn = 0\ntry:\n"
        "    while True:\n"
        "        if os.fork() == 0:\n            time.sleep(30); os._exit(0)\n"
        "        n += 1\n"
        "except OSError as e:\n    print(n < 2000, e.strerror)",
        {"--json"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(contains(field(o.out, "/stdout"), "True"));
    CHECK(contains(o.out, "pids"));
  }

  TEST_CASE("proc: a descriptor bomb is held by the open files limit") {
    const Outcome o = python(
        "import os\nn = 0\ntry:\n    while True:\n        os.dup(0); n += 1\n"
        "except OSError as e:\n    print(n <= 1024, e.strerror)");
    INFO(o.show());
    CHECK(o.out == "True Too many open files\n");
  }

  TEST_CASE("proc: ten jobs at once do not disturb each other") {
    std::vector<std::unique_ptr<Child>> jobs;
    for (int i = 0; i < 10; ++i) {
      jobs.push_back(std::make_unique<Child>(
          sbx_spec(bash_args("sleep 0." + std::to_string(i) + "; echo n" + std::to_string(i) +
                             "; exit " + std::to_string(i)))));
    }
    for (int i = 0; i < 10; ++i) {
      const Outcome o = jobs[static_cast<size_t>(i)]->wait();
      INFO(o.show());
      CHECK(o.code == i);
      CHECK(o.out == "n" + std::to_string(i) + "\n");
    }
  }
}

}  // namespace sbx::test
