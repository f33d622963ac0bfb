// Outcome: see outcome.h.
#include "core/supervise/outcome.h"

#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "core/base/exit_code.h"
#include "core/base/text.h"

namespace sbx::supervise {

namespace {

struct CauseName {
  Cause cause;
  std::string_view name;
};
constexpr auto kNames = std::to_array<CauseName>({
    {Cause::kExited, "exited"},
    {Cause::kSignal, "signal"},
    {Cause::kTimeout, "timeout"},
    {Cause::kCpuLimit, "cpu_limit"},
    {Cause::kOom, "oom"},
    {Cause::kDiskFull, "disk_full"},
    {Cause::kOutputLimit, "output_limit"},
    {Cause::kPolicyDenied, "policy_denied"},
    {Cause::kSandboxError, "sandbox_error"},
    {Cause::kUsage, "usage"},
    {Cause::kInterrupted, "interrupted"},
    {Cause::kSkipped, "skipped"},
});

struct SignalName {
  int signo;
  std::string_view name;
};
constexpr auto kSignals = std::to_array<SignalName>({
    {SIGHUP, "HUP"},   {SIGINT, "INT"},       {SIGQUIT, "QUIT"}, {SIGILL, "ILL"},
    {SIGTRAP, "TRAP"}, {SIGABRT, "ABRT"},     {SIGBUS, "BUS"},   {SIGFPE, "FPE"},
    {SIGKILL, "KILL"}, {SIGUSR1, "USR1"},     {SIGSEGV, "SEGV"}, {SIGUSR2, "USR2"},
    {SIGPIPE, "PIPE"}, {SIGALRM, "ALRM"},     {SIGTERM, "TERM"}, {SIGSTKFLT, "STKFLT"},
    {SIGCHLD, "CHLD"}, {SIGCONT, "CONT"},     {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"},
    {SIGTTIN, "TTIN"}, {SIGTTOU, "TTOU"},     {SIGURG, "URG"},   {SIGXCPU, "XCPU"},
    {SIGXFSZ, "XFSZ"}, {SIGVTALRM, "VTALRM"}, {SIGPROF, "PROF"}, {SIGWINCH, "WINCH"},
    {SIGIO, "IO"},     {SIGPWR, "PWR"},       {SIGSYS, "SYS"},
});

/// What the wait status alone says.
Outcome from_status(int wait_status) {
  Outcome outcome;
  if (WIFSIGNALED(wait_status)) {
    outcome.cause = Cause::kSignal;
    outcome.signal = WTERMSIG(wait_status);
  } else {
    outcome.exit_code = WEXITSTATUS(wait_status);
  }
  return outcome;
}

Outcome from_exec_error(const EndFacts& facts) {
  Outcome outcome;
  outcome.error = facts.exec_error;
  if (facts.exec_errno == 0) {
    outcome.cause = Cause::kSandboxError;
    return outcome;
  }
  const bool is_missing = facts.exec_errno == ENOENT || facts.exec_errno == ENOTDIR;
  outcome.exit_code = is_missing ? kExitNotFound : kExitNotExecutable;
  return outcome;
}

}  // namespace

std::string_view name(Cause cause) {
  for (const CauseName& entry : kNames) {
    if (entry.cause == cause) return entry.name;
  }
  return "unknown";
}

std::string signal_name(int signo) {
  for (const SignalName& entry : kSignals) {
    if (entry.signo == signo) return std::string(entry.name);
  }
  return signo >= 32 ? text::cat("RT", signo) : text::cat(signo);
}

Outcome classify(const EndFacts& facts) {
  Outcome outcome;
  if (facts.wait_status.has_value()) outcome = from_status(*facts.wait_status);
  if (facts.inodes_are_up) outcome.limit_hit = "inodes";
  if (facts.disk_is_full) outcome.limit_hit = "disk";
  if (facts.pids_denied > 0) outcome.limit_hit = "pids";
  if (facts.oom_kills > 0) outcome.limit_hit = "memory";
  // What we did ourselves, or what broke, wins over what a status looks like.
  if (facts.pid1_died && facts.oom_kills > 0) {
    // PID 1 shares the job's memory limit in cgroup v2, and the OOM killer may choose it.
    outcome.cause = Cause::kOom;
    outcome.signal = SIGKILL;
  } else if (facts.sandbox_error.has_value()) {
    outcome.cause = Cause::kSandboxError;
    outcome.error = facts.sandbox_error;
  } else if (facts.interrupted_by != 0) {
    outcome.cause = Cause::kInterrupted;
    outcome.signal = facts.interrupted_by;
  } else if (facts.timed_out) {
    outcome.cause = Cause::kTimeout;
  } else if (facts.cpu_time_is_up || (facts.has_cpu_rlimit && outcome.signal == SIGXCPU)) {
    outcome.cause = Cause::kCpuLimit;
  } else if (facts.exec_error.has_value()) {
    const std::string limit_hit = outcome.limit_hit;
    outcome = from_exec_error(facts);
    outcome.limit_hit = limit_hit;
  } else if (outcome.cause == Cause::kSignal && outcome.signal == SIGKILL && facts.oom_kills > 0) {
    outcome.cause = Cause::kOom;
  } else if ((facts.disk_is_full || facts.inodes_are_up) &&
             (outcome.signal != 0 || outcome.exit_code != 0)) {
    outcome.cause = Cause::kDiskFull;
  } else if (facts.required_missing && outcome.cause == Cause::kExited && outcome.exit_code == 0) {
    outcome.cause = Cause::kPolicyDenied;
  }
  return outcome;
}

int exit_status(const Outcome& outcome) {
  switch (outcome.cause) {
    case Cause::kExited:
      return outcome.exit_code;
    case Cause::kSignal:
    case Cause::kInterrupted:
      return kExitSignalBase + outcome.signal;
    case Cause::kOom:
      return kExitSignalBase + SIGKILL;
    case Cause::kTimeout:
    case Cause::kCpuLimit:
      return kExitTimeout;
    case Cause::kSkipped:
      return kExitOk;
    case Cause::kUsage:
      return kExitUsage;
    case Cause::kDiskFull:
      return outcome.signal != 0 ? kExitSignalBase + outcome.signal : outcome.exit_code;
    case Cause::kOutputLimit:
    case Cause::kPolicyDenied:
    case Cause::kSandboxError:
      return kExitSandbox;
  }
  return kExitSandbox;
}

}  // namespace sbx::supervise
