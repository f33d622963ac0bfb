// Cgroup freeze: stopping and continuing what is in the groups, PID 1 excepted.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/backoff.h"
#include "core/confine/cgroup.h"
#include "core/confine/cgroup_file.h"
#include "core/confine/host_text.h"
#include "core/confine/proc_table.h"

namespace sbx::confine {

namespace cgf = cgroup_file;

namespace {

constexpr Millis kFreezeDeadline{2000};
constexpr std::uint64_t kKillBit = std::uint64_t{1} << static_cast<unsigned>(SIGKILL - 1);

}  // namespace

Status Cgroup::split(std::optional<uid_t> owner) {
  if (join_dir() < 0) return Error(Errc::kUnsupported, "split a cgroup: it is not one of v2");
  Group& group = groups_.front();
  const std::string path = text::cat(group.path, "/job");
  {
    const fs::OwnerUmask mask;
    SBX_TRY(sys::mkdirat(group.dir.get(), "job", 0755));
  }
  SBX_ASSIGN(UniqueFd job, fs::open_dir(path));
  if (owner.has_value()) {
    // cgroups(7), delegation: the right to write cgroup.procs of the target and of the nearest
    // group above both. Neither opens the files that hold limits.
    constexpr auto kSameGroup = static_cast<gid_t>(-1);
    for (const int dir : {group.dir.get(), job.get()}) {
      SBX_TRY(sys::fchownat(dir, "cgroup.procs", *owner, kSameGroup, AT_SYMLINK_NOFOLLOW));
    }
  }
  group.job = std::move(job);
  return {};
}

int Cgroup::job_dir() const {
  return groups_.empty() ? -1 : groups_.front().job.get();
}

bool Cgroup::has_freezer() const {
  return std::any_of(
      groups_.begin(), groups_.end(), [](const Group& group) { return group.can_freeze(); });
}

Status Cgroup::start_freezing(bool is_frozen) {
  if (!has_freezer()) {
    return Error(Errc::kUnsupported, "freeze: the sandbox has no cgroup that can");
  }
  for (const Group& group : groups_) {
    if (!group.can_freeze()) continue;
    const bool v1 = group.version == CgroupVersion::kV1;
    const char* const wanted = v1 ? (is_frozen ? "FROZEN" : "THAWED") : (is_frozen ? "1" : "0");
    SBX_TRY(cgf::write(
        group.freeze_dir(), group.freeze_path(), v1 ? "freezer.state" : "cgroup.freeze", wanted));
  }
  return {};
}

Result<bool> Cgroup::is_frozen_as(bool is_frozen) const {
  for (const Group& group : groups_) {
    if (!group.can_freeze()) continue;
    const bool v1 = group.version == CgroupVersion::kV1;
    // A v1 group passes FREEZING while a process is in an uninterruptible sleep; v2 says it in
    // cgroup.events.
    SBX_ASSIGN(
        const std::string now,
        cgf::read(group.freeze_dir(), group.freeze_path(), v1 ? "freezer.state" : "cgroup.events"));
    const bool is_so = v1 ? now == (is_frozen ? "FROZEN" : "THAWED")
                          : find_counter(now, "frozen") == (is_frozen ? 1U : 0U);
    if (!is_so) return false;
  }
  return true;
}

Status Cgroup::set_frozen(bool frozen) {
  SBX_TRY(start_freezing(frozen));
  const std::int64_t deadline = monotonic_now().v + kFreezeDeadline.v;
  for (Backoff backoff;; backoff.wait()) {
    SBX_ASSIGN(const bool is_done, is_frozen_as(frozen));
    if (is_done) return {};
    SBX_TRY(start_freezing(frozen));
    if (monotonic_now().v < deadline) continue;
    return Error(Errc::kTimeout,
                 text::cat(frozen ? "freeze " : "thaw ",
                           groups_.front().path,
                           ": not done after ",
                           to_string(kFreezeDeadline)));
  }
}

Status Cgroup::freeze() {
  return set_frozen(true);
}

Status Cgroup::thaw() {
  return set_frozen(false);
}

Status Cgroup::release_killed() {
  const Group* const group = find(&Group::freezer);
  if (group == nullptr || group->version != CgroupVersion::kV1) return {};
  SBX_ASSIGN(const UniqueFd proc, open_proc());
  SBX_ASSIGN(const UniqueFd parent, fs::open_dir(group->parent));
  SBX_ASSIGN(const std::string members, cgf::read(group->dir.get(), group->path, "cgroup.procs"));
  for (const std::string_view word : text::split(members, '\n')) {
    const auto pid = parse_count(word);
    if (!pid.ok()) continue;
    const auto status = read_proc_status(proc.get(), static_cast<pid_t>(pid.value()));
    if (!status || (status->pending & kKillBit) == 0) continue;
    // freezer_attach() thaws whoever comes into a group that is not frozen.
    Status moved = cgf::write(parent.get(), group->parent, "cgroup.procs", word);
    if (!moved.ok() && moved.error().sys_errno() != ESRCH) return moved;
  }
  return {};
}

}  // namespace sbx::confine
