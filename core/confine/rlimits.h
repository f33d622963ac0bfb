// Rlimits: per-process resource limits, prepared before clone and set in the child.
#pragma once

#include <sys/resource.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/units.h"
#include "core/confine/cgroup.h"

namespace sbx::confine {

struct RlimitRequest {
  std::uint64_t open_files = 1024;
  /// RLIMIT_DATA: private writable memory of each process. Approximates a memory limit where no
  /// cgroup can hold one. (Not RLIMIT_AS: Node, Go and Java reserve far more than they use.)
  std::optional<Bytes> data;
  /// RLIMIT_NPROC: processes and threads of the job's user. Since Linux 5.14 counted per user
  /// namespace, so for a sandbox with one of its own it is a real limit of the whole sandbox.
  std::optional<std::uint64_t> processes;
  /// RLIMIT_CPU of each process: SIGXCPU then, SIGKILL a second later. Approximates a limit of all.
  std::optional<std::uint64_t> cpu_seconds = std::nullopt;
};

/// Ready data for the child; no pointers.
struct RlimitSet {
  struct Entry {
    int resource = 0;
    rlimit value{};
  };
  std::array<Entry, 8> entries{};
  std::size_t count = 0;
};

/// What to set: core dumps off, locked memory and message queues small, and the request. Values
/// above the caller's own hard limits are lowered to them, as the kernel would refuse more.
RlimitSet prepare_rlimits(const RlimitRequest& request);

/// The limits of `set` for the result object (open_files always; memory, pids where asked).
std::vector<InForce> rlimits_in_force(const RlimitSet& set);

/// Sets soft and hard limits. 0 or an errno.
int apply_rlimits_in_child(const RlimitSet& set) noexcept;

}  // namespace sbx::confine
