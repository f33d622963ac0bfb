// Batch plan: which job may start now, and what the whole came to. Pure decisions: no system call,
// no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/units.h"
#include "core/supervise/outcome.h"

namespace sbx::run {

/// Lets jobs in, in the order of the list, as long as the sum of their memory limits fits.
///
/// A job that has no memory limit, or one above the whole budget, runs alone: never less than what
/// `run` would do, and never beside another job. A job that has to wait holds back those behind it,
/// so that none waits for ever.
class Admission {
 public:
  Admission(Bytes budget, unsigned slots) : budget_(budget), slots_(slots) {}

  /// Whether a job with this memory limit may start beside those that run.
  bool may_start(std::optional<Bytes> memory) const;
  void started(std::optional<Bytes> memory);
  /// With the same value as started().
  void ended(std::optional<Bytes> memory);

  bool must_be_alone(std::optional<Bytes> memory) const;
  unsigned running() const { return running_; }
  Bytes budget() const { return budget_; }

 private:
  Bytes budget_;
  unsigned slots_;
  unsigned running_ = 0;
  std::uint64_t used_ = 0;
  bool has_lone_ = false;
};

/// What is counted over all jobs.
struct BatchCounts {
  std::uint64_t ok = 0;           ///< exit status 0
  std::uint64_t failed = 0;       ///< any other end, but not by a signal to us
  std::uint64_t interrupted = 0;  ///< ended by a signal to us
  std::uint64_t broken = 0;       ///< of the failed ones: there was no working sandbox
  std::uint64_t earlier = 0;      ///< of ok and failed: from the results of an earlier run
  std::uint64_t finished() const { return ok + failed + interrupted; }
};

void count(BatchCounts& counts, supervise::Cause cause, int exit_status);

/// How the batch itself ended.
struct BatchEnd {
  BatchCounts counts;
  int signal = 0;           ///< that ended it, else 0
  bool is_stopped = false;  ///< by fail_fast: jobs are left
};

/// 128 + signal; 125 when no job had a working sandbox; 1 when a job failed; else 0.
int batch_exit_status(const BatchEnd& end);

/// What jobs may have together: what the host and the groups around us have left, less what is kept
/// for everything else: a tenth of it, at least 128 MiB, at most 1 GiB.
Bytes memory_budget(Bytes available);

}  // namespace sbx::run
