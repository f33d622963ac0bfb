// Which limits control groups hold here: a group is made, the limit written and read back, and the
// group removed, for each controller apart.
#include <unistd.h>

#include <functional>
#include <string>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/cgroup.h"
#include "core/confine/disk_image.h"
#include "core/confine/scope.h"
#include "core/host/facts.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

using confine::Cgroup;
using confine::CgroupLayout;
using confine::CgroupRequest;
using confine::CgroupVersion;
using confine::ControllerPlace;

constexpr Millis kScopePatience{3000};

/// Where groups can be made: as a run does it, after asking the user's systemd where nothing is
/// delegated. Only this process is moved, and the scope ends with it.
Result<CgroupLayout> layout_of(const DoctorContext& context) {
  if (!context.cgroups.ok() || !confine::is_unified_hierarchy()) return context.cgroups;
  const auto call = confine::plan_scope(confine::look_for_manager(context.cgroups.value()));
  if (!call) return context.cgroups;
  const Status moved = confine::enter_scope(*call, kScopePatience, "/proc/self/cgroup");
  return moved.ok() ? confine::probe_cgroups() : context.cgroups;
}

/// Makes a group as `request` says, lets `use` try it, removes it.
Finding try_group(const DoctorContext& context,
                  std::string_view what,
                  ControllerPlace CgroupLayout::*place_of,
                  CgroupRequest request,
                  const std::function<Status(Cgroup&)>& use) {
  const Result<CgroupLayout> layout = layout_of(context);
  if (!layout.ok()) return missing("read what is mounted", layout.error());
  const ControllerPlace& place = layout.value().*place_of;
  if (!place.usable()) return missing("looked for a place to make groups", place.cause, place.fix);
  const std::string tried = text::cat("cgroup ",
                                      place.version == CgroupVersion::kV1 ? "v1" : "v2",
                                      ": ",
                                      what,
                                      " in a new group below ",
                                      place.dir);
  auto id = confine::cgroup_id();
  if (!id.ok()) return missing(tried, id.error());
  request.id = std::move(id).value();
  auto group = Cgroup::create(layout.value(), request);
  if (!group.ok()) return missing(tried, group.error());
  if (const Status used = use(group.value()); !used.ok()) return missing(tried, used.error());
  for (const confine::InForce& held : group.value().in_force()) {
    if (!held.approximate) continue;
    return weak(tried,
                text::cat(held.mechanism, ": memory can leave the group for swap space"),
                "turn swap off (swapoff -a), or boot with swapaccount=1");
  }
  if (const Status gone = group.value().remove(); !gone.ok()) return missing(tried, gone.error());
  return works(tried);
}

Status nothing_more(Cgroup& /*group*/) {
  return {};
}

}  // namespace

Finding check_cgroup_memory(const DoctorContext& context) {
  CgroupRequest request;
  request.memory = Bytes{64U << 20U};
  return try_group(context,
                   "wrote and read back a memory limit",
                   &CgroupLayout::memory,
                   std::move(request),
                   nothing_more);
}

Finding check_cgroup_pids(const DoctorContext& context) {
  CgroupRequest request;
  request.pids = 64;
  return try_group(context,
                   "wrote and read back a limit on processes",
                   &CgroupLayout::pids,
                   std::move(request),
                   nothing_more);
}

Finding check_cgroup_cpu(const DoctorContext& context) {
  CgroupRequest request;
  request.cpu_millis = 500;
  return try_group(context,
                   "wrote and read back a processor quota",
                   &CgroupLayout::cpu,
                   std::move(request),
                   nothing_more);
}

Finding check_cgroup_freezer(const DoctorContext& context) {
  CgroupRequest request;
  request.freezer = true;
  return try_group(context,
                   "froze and thawed",
                   &CgroupLayout::freezer,
                   std::move(request),
                   [](Cgroup& group) -> Status {
                     SBX_TRY(group.freeze());
                     return group.thaw();
                   });
}

Finding check_systemd_user(const DoctorContext& context) {
  if (context.files.is_root) return plays_no_part("root makes its control groups itself");
  if (::access(text::cat(context.files.root, "/run/systemd/system").c_str(), F_OK) != 0) {
    return plays_no_part("systemd does not run this host");
  }
  if (!context.cgroups.ok()) return missing("read what is mounted", context.cgroups.error());
  const confine::ScopeView view = confine::look_for_manager(context.cgroups.value());
  if (view.is_delegated) return works("a control group is delegated: systemd need not be asked");
  const std::string tried = "asked the user's systemd for a scope";
  if (!view.has_manager) {
    return weak(
        tried,
        text::cat("it does not listen in ", view.runtime_dir),
        text::cat("log in through a session of systemd (ssh, machinectl shell), or as root: "
                  "loginctl enable-linger ",
                  context.paths.uid));
  }
  if (view.busctl.empty()) {
    return weak(tried, "there is no busctl to ask with", "as root: apt-get install systemd");
  }
  const auto call = confine::plan_scope(view);
  if (!call) return plays_no_part("there is nothing to ask systemd for");
  const Status moved = confine::enter_scope(*call, kScopePatience, "/proc/self/cgroup");
  if (moved.ok()) return works(text::cat(tried, ", and was moved into it"));
  return weak(tried, moved.error().message(), moved.error().hint());
}

Finding check_disk_limit(const DoctorContext& context) {
  if (!context.files.is_root) return plays_no_part("only root can mount an image");
  const confine::DiskImageAbility ability = confine::probe_disk_images();
  const std::string tried = "made an ext4 image of 16 MiB and mounted it, seen by nobody";
  if (!ability.is_able) return missing(tried, ability.cause, ability.fix);
  const auto state = open_state_dir(context.paths);
  if (!state.ok()) return missing(tried, state.error());
  const auto image =
      confine::make_disk_image({state.value().path, Bytes{16U << 20U}, /*inodes=*/64, /*owner=*/0});
  if (!image.ok()) return missing(tried, image.error());
  return works(tried);
}

}  // namespace sbx::host
