// Limit plan: decides, before anything is made, which mechanism holds which limit on this host.
// Pure: an explicit limit that nothing can hold is an error with the fix; a shipped default gets
// the nearest approximation, labelled, and one warning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/confine/cgroup.h"
#include "core/confine/rlimits.h"

namespace sbx::confine {

/// A limit and whether a person asked for it.
template <typename T>
struct Wish {
  std::optional<T> value;
  bool is_explicit = false;
};

struct LimitWishes {
  Wish<Bytes> memory;
  Wish<std::uint64_t> pids;
  Wish<std::uint32_t> cpu_millis;
  Wish<Millis> cpu_time;
  std::uint64_t open_files = 1024;
  bool best_effort = false;  ///< approximate explicit limits, too
  /// Processes of ours that the kernel counts with the job's in its user namespace (the agent).
  std::uint32_t own_processes = 1;
  /// RLIMIT_NPROC is counted per user namespace: Linux 5.14 and later.
  bool nproc_is_per_userns = true;
};

struct LimitPlan {
  CgroupRequest cgroup;  ///< id still empty
  RlimitRequest rlimits;
  /// CPU time of the whole sandbox that its supervisor is to hold it to.
  std::optional<Millis> cpu_time;
  std::vector<InForce> expected;      ///< what will be in force, before it is read back
  std::vector<std::string> warnings;  ///< at most one sentence
};

Result<LimitPlan> plan_limits(const LimitWishes& wishes, const CgroupLayout& layout);

}  // namespace sbx::confine
