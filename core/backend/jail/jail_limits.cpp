// Jail limits: see jail_limits.h.
#include "core/backend/jail/jail_limits.h"

#include <variant>
#include <vector>

#include "core/confine/affinity.h"
#include "core/confine/cgroup_layout.h"
#include "core/confine/scope.h"

namespace sbx::jail {

namespace {

constexpr Millis kScopePatience{3000};

}  // namespace

confine::Cgroup group_ahead() {
  if (!confine::is_unified_hierarchy()) return {};
  auto layout = confine::probe_cgroups();
  if (layout.ok()) {
    if (const auto call = confine::plan_scope(confine::look_for_manager(layout.value()))) {
      // Without it limits are refused or approximated, with the cause, when they are planned.
      const Status moved = confine::enter_scope(*call, kScopePatience, "/proc/self/cgroup");
      if (moved.ok()) layout = confine::probe_cgroups();
    }
  }
  const auto id = confine::cgroup_id();
  if (!layout.ok() || !id.ok()) return {};
  return confine::Cgroup::create_ahead(layout.value(), id.value());
}

Status set_limits(confine::Cgroup& cgroup, const JailPlan& plan) {
  if (cgroup.join_dir() < 0) {
    SBX_ASSIGN(cgroup, confine::Cgroup::create(plan.layout, plan.cgroup));
    return {};
  }
  confine::CgroupRequest request = plan.cgroup;
  request.own_processes = 1;
  return cgroup.limit(plan.layout, request);
}

void show_limits(const confine::Cgroup& cgroup, pid_t pid, JailPlan& plan) {
  if (plan.cpu_millis.has_value()) (void)confine::show_cpus(pid, *plan.cpu_millis);
  // Groups that programs join one by one are not where PID 1 and its cgroup namespace are.
  if (!cgroup.join_fds().empty()) {
    std::erase_if(plan.steps, [](const confine::Step& step) {
      return std::holds_alternative<confine::ShowCgroup>(step);
    });
  }
}

}  // namespace sbx::jail
