// Cgroup: the control groups that hold one sandbox's processes to its limits.
//
// Theory of operation
//  1. create() makes one group per hierarchy that a wanted limit needs (none for other limits),
//     writes each limit and reads it back: a limit that differs is an error, not a warning.
//  2. Processes join themselves: each writes "0" to every descriptor of join_fds(). The kernel
//     checks the right to do so against the opener (the supervisor), so that the descriptors also
//     work inside the sandbox. In v1 they are `tasks` files: moving only oneself takes 50 us, while
//     cgroup.procs waits for an RCU grace period (8 ms measured). In v2 join_dir() is for clone3
//     with CLONE_INTO_CGROUP, which does not wait either: create_ahead() makes that group before
//     any limit is known, limit() sets and reads back the limits while PID 1 still sets up.
//  3. kill() ends whoever is in them, frozen or not; remove() waits (bounded) until they are empty.
//  4. What can be frozen has PID 1 not in it. v1: PID 1 joins no group. v2: split() makes a group
//     "job" below the one that PID 1 started in; limits and counters stay on the upper one, and
//     the programs are cloned into the lower one by PID 1 itself.
// Group names hold pid and start time of their supervisor, so that reap_stale_cgroups() can tell
// what a crashed one left.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "core/confine/cgroup_layout.h"

namespace sbx::confine {

/// A limit and what holds it, for the result object and --dry-run.
struct InForce {
  std::string limit;         ///< "memory", "pids", "cpus", "open_files" …
  std::string value;         ///< "536870912"
  std::string mechanism;     ///< "cgroup v1 memory.limit_in_bytes"
  bool approximate = false;  ///< holds only part of what was asked (e.g. for each process apart)
};

/// What to make. All limits unset and nothing else wanted: no group is made.
struct CgroupRequest {
  std::string id;  ///< from cgroup_id(), or a text of [a-z0-9-]
  std::optional<Bytes> memory;
  std::optional<std::uint64_t> pids;
  std::optional<std::uint32_t> cpu_millis;
  /// Processes of ours that are in the groups with the job's (PID 1 when it was cloned into
  /// join_dir()): that many more are let in, and the limit is still reported as asked.
  std::uint64_t own_processes = 0;
  bool accounting = false;  ///< also count CPU time where that needs a group of its own (v1)
  bool view = false;      ///< v1: also groups of cpu, cpuacct and cpuset, without which a JVM that
                          ///< looks at /sys/fs/cgroup takes no limit for real
  bool freezer = false;   ///< also be able to freeze() where that needs a group of its own (v1)
  bool counting = false;  ///< also count memory where that can be done, limit or not (v1)
};

/// What the groups count now. A value is missing when no group counts it.
struct LiveCounters {
  std::optional<std::uint64_t> cpu_ns;
  std::optional<std::uint64_t> memory;       ///< bytes
  std::optional<std::uint64_t> memory_peak;  ///< bytes
  std::optional<std::uint64_t> read_bytes;
  std::optional<std::uint64_t> write_bytes;
};

/// Counters of the groups. A value is missing when no group counts it.
struct Usage {
  std::optional<std::uint64_t> cpu_ns;
  std::optional<std::uint64_t> max_memory;  ///< bytes
  std::optional<std::uint64_t> read_bytes;
  std::optional<std::uint64_t> write_bytes;
};

/// 1500 as "1.5".
std::string cpus_text(std::uint32_t millis);

/// Whether v2 is all that this host has: one statfs(2), so that it can be asked on every start.
bool is_unified_hierarchy();

/// "<pid>-<start time>-<pid namespace>-<random>" of this process: a CgroupRequest::id that
/// reap_stale_cgroups() understands.
Result<std::string> cgroup_id();

/// Owns the groups of one sandbox. The destructor kills and removes what remove() did not.
class Cgroup {
 public:
  /// No groups at all; every call succeeds and does nothing.
  Cgroup() = default;
  ~Cgroup();
  Cgroup(Cgroup&& other) noexcept;
  Cgroup& operator=(Cgroup&& other) noexcept;
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;

  /// Makes the groups with their limits, or nothing. kUnsupported with the fix when a wanted
  /// controller has no place or a value is not held as asked. Where swap cannot be counted the
  /// memory limit is marked as approximate: whether that will do is for plan_limits() to say.
  static Result<Cgroup> create(const CgroupLayout& layout, const CgroupRequest& request);

  /// A v2 group without limits, with every controller of `layout` turned on, to be cloned into
  /// before a request is known. No group where one alone would not do (v1, hybrid, none) or where
  /// it cannot be made: create() then does it, or says what is wrong.
  static Cgroup create_ahead(const CgroupLayout& layout, const std::string& id);
  /// What create() does about limits, for what create_ahead() made. Processes may be in it; one
  /// more error here is a memory limit below what they use already.
  Status limit(const CgroupLayout& layout, const CgroupRequest& request);

  /// Descriptors to write "0" to, one per group; empty when there are none.
  std::span<const UniqueFd> join_fds() const { return join_fds_; }
  /// The v2 group's directory, for clone_args.cgroup (CLONE_INTO_CGROUP), when that one group is
  /// all there is; else -1. Here the kernel checks the rights of whoever calls clone3, so it is for
  /// the supervisor: PID 1 starts in the group, and all that it forks stays there. Measured: 0.2 ms
  /// for clone and wait, against 11 ms for one write to cgroup.procs (an RCU grace period).
  int join_dir() const;
  /// v2, where join_dir() is: makes the group "job" below it and lets the host id `owner`, when
  /// there is one, clone into it (CLONE_INTO_CGROUP from a process in the upper group). From then
  /// on it is what is frozen. The limits hold for both together.
  Status split(std::optional<uid_t> owner);
  /// The directory of "job" for clone_args.cgroup; -1 before split().
  int job_dir() const;

  const std::vector<InForce>& in_force() const { return in_force_; }

  /// How often the OOM killer ended a process of the groups. 0 without a memory group.
  Result<std::uint64_t> oom_kills() const;
  /// How often a fork was refused by the pids limit. 0 without a pids group.
  Result<std::uint64_t> pids_denied() const;
  Result<Usage> usage() const;
  /// CPU time of the groups so far, in ns: one small read. kUnsupported when no group counts it.
  Result<std::uint64_t> cpu_time() const;
  Result<LiveCounters> live() const;
  /// Processes in the groups now.
  Result<std::vector<pid_t>> processes() const;
  /// The same, of those that can be frozen, where that is another set.
  Result<std::vector<pid_t>> job_processes() const;
  /// Whether there is any group.
  bool exists() const { return !groups_.empty(); }

  /// Stops / continues all processes; kUnsupported when no group can. Waits (bounded) until it is.
  Status freeze();
  Status thaw();
  bool has_freezer() const;
  /// The same without waiting. To be called again while it is not done: v1 overlooks a process that
  /// was just going to sleep (the parent in vfork(2)) until it is told once more.
  Status start_freezing(bool is_frozen);
  /// Whether all processes are stopped / may run.
  Result<bool> is_frozen_as(bool is_frozen) const;
  /// v1: a stopped process to which SIGKILL was sent leaves the frozen group, and so dies before it
  /// does anything else. v2 needs none of that.
  Status release_killed();
  /// SIGKILL to every process in the groups, thawed first; forks cannot outrun it. Does not wait
  /// for their end.
  Status kill();
  /// Removes the groups; waits up to 2 s while processes are still ending. After success this
  /// object is as if default-constructed, except that in_force() stays.
  Status remove();

  /// One line per group: directory and limits.
  std::string to_text() const;

 private:
  friend Status remove_stale_cgroup(const CgroupLayout& layout, const std::string& name);

  struct Group {
    CgroupVersion version = CgroupVersion::kNone;
    std::string parent;  // the place's directory
    std::string path;
    UniqueFd dir;
    bool memory = false;
    bool pids = false;
    bool cpu = false;
    bool accounting = false;
    bool freezer = false;
    bool cpuset = false;
    UniqueFd job;  // see split()

    bool can_freeze() const { return version == CgroupVersion::kV2 || freezer; }
    int freeze_dir() const { return job.valid() ? job.get() : dir.get(); }
    std::string freeze_path() const { return job.valid() ? path + "/job" : path; }
  };
  using Role = bool Group::*;
  /// One controller that a request needs.
  struct Want {
    bool wanted;
    const ControllerPlace* place;
    Role role;
  };

  Status add_group(const Want& want, const std::string& name);
  static Status turn_on_controllers(const Group& group,
                                    std::span<const std::string_view> controllers);
  static std::vector<std::string_view> controllers_of(const Group& group);
  Status adopt(const ControllerPlace& place, const std::string& name, Role role);
  static Status check_room(const Group& group, Bytes limit);
  Status set_limits(const CgroupRequest& request, SwapState swap);
  Status limit_memory(const Group& group, Bytes limit, SwapState swap);
  Status limit_pids(const Group& group, const CgroupRequest& request);
  Status limit_cpu(const Group& group, std::uint32_t millis);
  static Status fill_cpuset(const Group& group);
  Status open_join_fds();
  const Group* find(Role role) const;
  Status set_frozen(bool frozen);
  Result<bool> kill_round(std::set<pid_t>& killed) const;
  Status remove_within(Millis deadline);

  std::vector<Group> groups_;
  std::vector<UniqueFd> join_fds_;
  std::vector<InForce> in_force_;
};

/// Ends and removes groups whose supervisor is gone (crashed or killed): one readdir per place,
/// more only when there is something. Groups of living supervisors, and of other pid namespaces,
/// stay. Returns how many were removed; what cannot be removed now is left for the next time.
std::size_t reap_stale_cgroups(const CgroupLayout& layout);

/// A group whose supervisor is gone.
struct StaleCgroup {
  std::string path;                     ///< in the first of the places that have it
  pid_t pid = 0;                        ///< what the supervisor was
  std::optional<std::uint64_t> memory;  ///< bytes that it still holds; unset when nobody counts
};
/// What reap_stale_cgroups() would remove.
std::vector<StaleCgroup> find_stale_cgroups(const CgroupLayout& layout);
/// Thaws, kills and removes the group of this name in all places. kDenied when its supervisor
/// lives; success when it is gone already. Waits up to half a second for its processes to end.
Status remove_stale_cgroup(const CgroupLayout& layout, const std::string& name);

}  // namespace sbx::confine
