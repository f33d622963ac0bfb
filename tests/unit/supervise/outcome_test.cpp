#include "core/supervise/outcome.h"

#include <csignal>
#include <string>

#include <doctest/doctest.h>

namespace sbx::supervise {
namespace {

/// A wait(2) status of a process that a signal ended.
constexpr int killed_by(int signo) {
  return signo;
}

}  // namespace

TEST_CASE("outcome: a used up CPU time is its own cause, whatever the status looks like") {
  EndFacts facts;
  facts.cpu_time_is_up = true;
  for (const int status : {killed_by(SIGXCPU), killed_by(SIGKILL), 0}) {
    facts.wait_status = status;
    CHECK(name(classify(facts).cause) == "cpu_limit");
    CHECK(exit_status(classify(facts)) == 124);
  }
}

TEST_CASE("outcome: SIGXCPU is the CPU limit only where the kernel held one") {
  EndFacts facts;
  facts.wait_status = killed_by(SIGXCPU);
  CHECK(name(classify(facts).cause) == "signal");
  CHECK(exit_status(classify(facts)) == 128 + SIGXCPU);
  facts.has_cpu_rlimit = true;
  CHECK(name(classify(facts).cause) == "cpu_limit");
}

TEST_CASE("outcome: PID 1 that the OOM killer chose is the memory limit, not a broken sandbox") {
  EndFacts facts;
  facts.sandbox_error = Error(Errc::kProtocol, "the other side closed the channel");
  facts.pid1_died = true;
  CHECK(name(classify(facts).cause) == "sandbox_error");
  facts.oom_kills = 1;
  const Outcome outcome = classify(facts);
  CHECK(name(outcome.cause) == "oom");
  CHECK(exit_status(outcome) == 137);
  CHECK(outcome.limit_hit == "memory");
  CHECK_FALSE(outcome.error.has_value());
}

}  // namespace sbx::supervise
