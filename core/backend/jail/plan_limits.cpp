// Jail plan, the limits: what holds them, and what of them the job sees. See jail_plan.h.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/backend/jail/planner.h"
#include "core/base/text.h"
#include "core/confine/limit_plan.h"

namespace sbx::jail {

/// Runtimes size their heaps and pools by what they read here (JVM, Node, Go). Costs some mounts
/// and groups, so only where somebody asked for a limit or the profile says so. Not where the job
/// could make it writable: then its owner could lift its limits.
Status Planner::add_cgroup_view() {
  const bool is_wanted = profile_.limits.visible || profile_.is_explicit("limits.memory") ||
                         profile_.is_explicit("limits.cpus");
  // Those that root has in an image are of no use for it: the view is a mount.
  const bool has_asked = plan_.rules.capabilities != 0 && !is_image();
  if (!is_wanted || profile_.nesting || has_asked) return {};
  if (!plan_.cgroup.memory.has_value() && !plan_.cgroup.cpu_millis.has_value()) return {};
  const confine::CgroupLayout& layout = facts_.cgroups;
  if (layout.memory.version == confine::CgroupVersion::kV2 ||
      layout.cpu.version == confine::CgroupVersion::kV2) {
    builder_.add(confine::ShowCgroup{"/sys/fs/cgroup"});
    return {};
  }
  plan_.cgroup.view = true;
  struct View {
    const confine::ControllerPlace* place;
    bool is_made;
    const char* path;
  };
  std::vector<std::string> seen;  // cpu and cpuacct are one hierarchy on many hosts
  for (const View& view :
       {View{&layout.memory, plan_.cgroup.memory.has_value(), "/sys/fs/cgroup/memory"},
        View{&layout.cpu, true, "/sys/fs/cgroup/cpu"},
        View{&layout.accounting, true, "/sys/fs/cgroup/cpuacct"},
        View{&layout.cpuset, true, "/sys/fs/cgroup/cpuset"}}) {
    const std::string& dir = view.place->dir;
    if (!view.is_made || view.place->version != confine::CgroupVersion::kV1) continue;
    if (std::find(seen.begin(), seen.end(), dir) != seen.end()) continue;
    seen.push_back(dir);
    // v1 hierarchies have no view of a part: the group's own directory is bound, which a cgroup
    // namespace shows under the same name in /proc/self/cgroup and mountinfo.
    confine::Bind bind;
    bind.source = text::cat(dir, "/sbx-", request_.id);
    bind.path = view.path;
    SBX_TRY(builder_.add_bind(std::move(bind)));
  }
  return {};
}

Status Planner::decide_limits() {
  const profile::Limits& limits = profile_.limits;
  confine::LimitWishes wishes;
  wishes.memory = {limits.memory, profile_.is_explicit("limits.memory")};
  wishes.pids = {limits.pids, profile_.is_explicit("limits.pids")};
  wishes.cpu_millis = {limits.cpu_millis, profile_.is_explicit("limits.cpus")};
  wishes.cpu_time = {limits.cpu_time, profile_.is_explicit("limits.cpu_time")};
  wishes.open_files = limits.open_files;
  wishes.best_effort = limits.best_effort;
  wishes.nproc_is_per_userns = facts_.nproc_is_per_userns;
  SBX_ASSIGN(confine::LimitPlan decided, confine::plan_limits(wishes, facts_.cgroups));
  plan_.cgroup = std::move(decided.cgroup);
  plan_.cgroup.id = request_.id;
  if (request_.is_lasting) {
    plan_.cgroup.accounting = facts_.cgroups.accounting.usable();
    plan_.cgroup.freezer = facts_.cgroups.freezer.usable();
    plan_.cgroup.counting = true;
  }
  plan_.cpu_time = decided.cpu_time;
  plan_.cpu_millis = limits.cpu_millis;
  plan_.expected = std::move(decided.expected);
  plan_.warnings = std::move(decided.warnings);
  plan_.rules.rlimits = confine::prepare_rlimits(decided.rlimits);
  return decide_disk();
}

/// Whether somebody asked for a limit of the disk that must be held or refused.
bool Planner::is_disk_wished() const {
  const profile::Limits& limits = profile_.limits;
  return !limits.best_effort &&
         ((limits.disk.has_value() && profile_.is_explicit("limits.disk")) ||
          (limits.inodes.has_value() && profile_.is_explicit("limits.inodes")));
}

Status Planner::decide_disk() {
  const profile::Limits& limits = profile_.limits;
  confine::DiskWishes wishes;
  const bool is_kept = request_.root.has_value();
  if (is_kept && is_disk_wished()) {
    return Error(Errc::kUnsupported, "a limit of the disk cannot be held where the root is kept")
        .with_hint("leave the limit out, or add --set limits.best_effort=true to go without");
  }
  wishes.disk = {limits.disk, !is_kept && profile_.is_explicit("limits.disk")};
  wishes.inodes = {limits.inodes, !is_kept && profile_.is_explicit("limits.inodes")};
  wishes.memory = limits.memory;
  wishes.memory_total.v = facts_.memory_total;
  wishes.best_effort = limits.best_effort;
  wishes.has_images = facts_.images.is_able && !is_kept;
  // Changes of an image could not be held to a limit on a tmpfs that keeps no attributes.
  wishes.prefers_image =
      is_image() && !is_kept && is_disk_wished() && !facts_.tmpfs_keeps_attributes;
  wishes.no_images_cause = facts_.images.cause;
  wishes.no_images_fix = facts_.images.fix;
  SBX_ASSIGN(disk_, confine::plan_disk(wishes));
  // Of a root that is kept only /tmp and /dev/shm are in there: no limit of the disk to speak of.
  if (is_kept) disk_.expected.clear();
  if (is_kept) disk_.warnings.clear();
  plan_.expected.insert(plan_.expected.end(), disk_.expected.begin(), disk_.expected.end());
  plan_.warnings.insert(plan_.warnings.end(), disk_.warnings.begin(), disk_.warnings.end());
  if (disk_.place == confine::DiskPlace::kImage) {
    plan_.image = confine::DiskImageRequest{request_.state_dir, disk_.size, disk_.inodes, 0};
  }
  return {};
}

}  // namespace sbx::jail
