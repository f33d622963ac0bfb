// Outcome: how a job ended, typed from end to end, and its one mapping to an exit status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace sbx::supervise {

/// Why a job ended. What the supervisor did itself wins over what a status looks like.
enum class Cause {
  kExited,
  kSignal,
  kTimeout,
  kCpuLimit,
  kOom,
  kDiskFull,
  kOutputLimit,
  kPolicyDenied,
  kSandboxError,
  kUsage,
  kInterrupted,
  kSkipped,  ///< nothing ran: another run holds the lock, and the user wants it so
};

/// The name used in JSON and on --status-fd, e.g. "exited".
std::string_view name(Cause cause);

struct Outcome {
  Cause cause = Cause::kExited;
  int exit_code = 0;  ///< the program's own, when it exited; 126/127 when it could not be started
  int signal = 0;     ///< the signal that ended it (kSignal, kOom, kTimeout), or that we received
  std::optional<Error> error;  ///< set for kSandboxError, kUsage and for 126/127
  std::string limit_hit;       ///< "memory", "pids", "disk" or "inodes": met, whatever the cause
};

/// What is known at the end of a job; classify() decides from it alone.
struct EndFacts {
  std::optional<int> wait_status;   ///< of the main process, when it was reaped
  std::optional<Error> exec_error;  ///< the program could not be started
  int exec_errno = 0;               ///< errno of that
  std::optional<Error> sandbox_error;
  bool pid1_died = false;  ///< that error is the unasked end of PID 1
  bool timed_out = false;
  bool cpu_time_is_up = false;  ///< of all processes together; we ended them
  bool has_cpu_rlimit = false;  ///< the kernel held each process to its CPU time
  int interrupted_by = 0;       ///< signal that sbx itself received
  bool required_missing = false;
  uint64_t oom_kills = 0;
  uint64_t pids_denied = 0;
  bool disk_is_full = false;   ///< no space was left for files at the end
  bool inodes_are_up = false;  ///< no more files could be made at the end
};

/// Pure: from facts to outcome.
Outcome classify(const EndFacts& facts);

/// The only place that knows 124/125/126/127/128+n.
int exit_status(const Outcome& outcome);

/// "SIGKILL" without the "SIG", e.g. "KILL", "SEGV"; "RT34" beyond the named ones.
std::string signal_name(int signo);

}  // namespace sbx::supervise
