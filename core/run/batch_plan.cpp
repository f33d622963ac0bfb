// Batch plan: see batch_plan.h.
#include "core/run/batch_plan.h"

#include <algorithm>

#include "core/base/exit_code.h"

namespace sbx::run {

bool Admission::must_be_alone(std::optional<Bytes> memory) const {
  return !memory.has_value() || memory->v > budget_.v;
}

bool Admission::may_start(std::optional<Bytes> memory) const {
  if (running_ == 0) return slots_ > 0;
  if (running_ >= slots_ || has_lone_ || must_be_alone(memory)) return false;
  return memory->v <= budget_.v - used_;
}

void Admission::started(std::optional<Bytes> memory) {
  ++running_;
  if (must_be_alone(memory)) {
    has_lone_ = true;
  } else {
    used_ += memory->v;
  }
}

void Admission::ended(std::optional<Bytes> memory) {
  --running_;
  if (must_be_alone(memory)) {
    has_lone_ = false;
  } else {
    used_ -= memory->v;
  }
}

void count(BatchCounts& counts, supervise::Cause cause, int exit_status) {
  if (cause == supervise::Cause::kInterrupted) {
    ++counts.interrupted;
  } else if (exit_status == 0) {
    ++counts.ok;
  } else {
    ++counts.failed;
    if (cause == supervise::Cause::kSandboxError) ++counts.broken;
  }
}

int batch_exit_status(const BatchEnd& end) {
  const BatchCounts& counts = end.counts;
  if (end.signal != 0) return kExitSignalBase + end.signal;
  if (counts.failed == 0 && counts.interrupted == 0) return kExitOk;
  return counts.broken == counts.finished() ? kExitSandbox : kExitFailure;
}

Bytes memory_budget(Bytes available) {
  constexpr std::uint64_t kLeast = std::uint64_t{128} << 20U;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30U;
  constexpr std::uint64_t kTenth = 10;
  const std::uint64_t kept = std::clamp(available.v / kTenth, kLeast, kMost);
  return Bytes{available.v > kept ? available.v - kept : 0};
}

}  // namespace sbx::run
