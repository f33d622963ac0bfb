// Jail: see jail.h.
#include "core/backend/jail/jail.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "core/base/sys.h"
#include "core/confine/proc_table.h"

namespace sbx::jail {

namespace {

/// How long a killed namespace may take to become empty.
constexpr Millis kEndDeadline{10'000};

uint64_t cpu_time_ns(const rusage& used) {
  constexpr uint64_t kNsPerUs = 1000;
  constexpr uint64_t kUsPerSecond = 1'000'000;
  const auto micros = [](const timeval& time) {
    return static_cast<uint64_t>(time.tv_sec) * kUsPerSecond + static_cast<uint64_t>(time.tv_usec);
  };
  return (micros(used.ru_utime) + micros(used.ru_stime)) * kNsPerUs;
}

}  // namespace

std::optional<backend::User> Jail::stream_owner(const std::optional<backend::User>& user) const {
  if (!range_.has_value()) return std::nullopt;
  const backend::User inside = user.value_or(job_);
  // An id that is not mapped is refused by the agent.
  if (std::max(inside.uid, inside.gid) >= confine::IdRange::kCount) return std::nullopt;
  return backend::User{range_->base() + inside.uid, range_->base() + inside.gid};
}

void Jail::set_ids(const JailBasics& basics, const backend::User& job) {
  job_ = job;
  ids_.clear();
  if (range_.has_value()) {
    ids_.push_back({range_->base(), 0, confine::IdRange::kCount});
  } else if (basics.subids.has_value()) {
    for (const confine::IdMap& map : basics.subids->uids) {
      ids_.push_back({map.outside, map.inside, map.count});
    }
  } else {
    ids_.push_back({basics.own_uid, kJobId, 1});
  }
}

void Jail::prepare_freezer() {
  if (cgroup_.join_dir() < 0) {
    has_freezer_ = cgroup_.has_freezer();
    return;
  }
  std::optional<uid_t> owner;
  if (range_.has_value()) owner = range_->base();
  has_freezer_ = cgroup_.split(owner).ok();
}

Status Jail::kill() {
  if (is_reaped_) return {};
  SBX_TRY(sys::pidfd_send_signal(pidfd_.get(), SIGKILL));
  // With PID 1 the kernel kills everything, but in a frozen group of v1 nobody dies of it.
  return has_freezer_ ? cgroup_.kill() : Status();
}

Status Jail::set_frozen(bool is_frozen) {
  if (has_freezer_) return cgroup_.start_freezing(is_frozen);
  return Error(Errc::kUnsupported, "the sandbox has no group that can be frozen");
}

Result<bool> Jail::is_frozen_as(bool is_frozen) const {
  return cgroup_.is_frozen_as(is_frozen);
}

Status Jail::release_killed() {
  return has_freezer_ ? cgroup_.release_killed() : Status();
}

/// With groups whatever is in them, also what has no parent inside; else all that PID 1 begot.
Result<std::vector<pid_t>> Jail::payload() const {
  std::vector<pid_t> pids;
  if (cgroup_.exists()) {
    SBX_ASSIGN(pids, cgroup_.job_processes());
    std::erase(pids, pid_);
    return pids;
  }
  SBX_ASSIGN(const UniqueFd proc, confine::open_proc());
  return confine::find_descendants(proc.get(), pid_, backend::kMaxProcesses);
}

Result<backend::LiveUsage> Jail::usage() const {
  backend::LiveUsage out;
  if (is_reaped_) return out;
  SBX_ASSIGN(const std::vector<pid_t> pids, payload());
  confine::LiveCounters counted;
  if (cgroup_.exists()) {
    SBX_ASSIGN(counted, cgroup_.live());
  }
  if (!counted.cpu_ns.has_value() && !counted.memory.has_value()) {
    sum_processes(pids, out);
  } else {
    out.cpu_ns = counted.cpu_ns;
    out.memory = counted.memory;
    out.memory_peak = counted.memory_peak;
    out.read_bytes = counted.read_bytes;
    out.write_bytes = counted.write_bytes;
  }
  // io.stat is there only where the host has the io controller on; v1 does not know who wrote what
  // goes to the disk later.
  if (!out.write_bytes.has_value()) sum_io(pids, out);
  out.processes = pids.size();
  return out;
}

Result<std::vector<backend::ProcessInfo>> Jail::processes() const {
  if (is_reaped_) return std::vector<backend::ProcessInfo>();
  SBX_ASSIGN(const std::vector<pid_t> pids, payload());
  const Result<bool> frozen = cgroup_.is_frozen_as(true);
  const bool is_frozen = has_freezer_ && frozen.ok() && frozen.value();
  return read_processes(pid_, pids, ids_, is_frozen);
}

/// Counters and removal of the cgroups; what they held is dead.
Status Jail::settle_cgroup() {
  if (auto kills = cgroup_.oom_kills(); kills.ok()) final_.oom_kills = kills.value();
  if (auto denied = cgroup_.pids_denied(); denied.ok()) final_.pids_denied = denied.value();
  if (auto usage = cgroup_.usage(); usage.ok()) final_.usage = usage.value();
  return cgroup_.remove();
}

Result<backend::FinalState> Jail::finish() {
  if (is_reaped_) return final_;
  const Status killed = kill();
  if (!killed.ok() && !has_freezer_) return killed.error();
  // PID 1 takes a while to give its mounts back (0.4 ms). Usually the job is gone already, and its
  // cgroup can be settled meanwhile.
  const auto left = cgroup_.processes();
  const bool is_empty = left.ok() && left.value().empty();
  Status settled = is_empty ? settle_cgroup() : Status();
  // The kernel reports PID 1's end only when every process of its namespace is gone
  // (pid_namespaces(7)), so this wait is the proof that nothing survives.
  std::array<pollfd, 1> polled{{{pidfd_.get(), POLLIN, 0}}};
  SBX_ASSIGN(const int ready, sys::poll(polled, kEndDeadline));
  if (ready == 0) {
    SBX_TRY(killed);
    return Error(Errc::kTimeout, "the sandbox's processes do not end");
  }
  rusage used{};
  SBX_ASSIGN([[maybe_unused]] const siginfo_t info,
             sys::waitid_pidfd(pidfd_.get(), WEXITED, &used));
  is_reaped_ = true;
  if (!is_empty) settled = settle_cgroup();
  // Everything inside was waited for by PID 1, or by the kernel in its name: this is all of it, and
  // the two milliseconds of set-up.
  if (!final_.usage.cpu_ns.has_value()) final_.usage.cpu_ns = cpu_time_ns(used);
  range_.reset();
  SBX_TRY(settled);
  return final_;
}

}  // namespace sbx::jail
