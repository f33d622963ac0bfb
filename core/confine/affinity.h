// Affinity: which processors a sandbox may run on, so that programs inside count them right.
//
// It is no limit: a program may change its own. What holds it is the cgroup's quota.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/result.h"

namespace sbx::confine {

/// `count` of `allowed`, neighbours, from a place that `seed` chooses, so that sandboxes spread.
/// All of them when there are not more.
std::vector<std::size_t> choose_cpus(const std::vector<std::size_t>& allowed,
                                     std::size_t count,
                                     std::uint64_t seed);

/// Lets process `pid`, and all that it forks later, run on as many of our own processors as
/// `cpu_millis` thousandths round up to (sched_setaffinity(2)).
Status show_cpus(pid_t pid, std::uint32_t cpu_millis);

}  // namespace sbx::confine
