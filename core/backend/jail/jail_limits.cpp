// Jail limits: see jail_limits.h.
#include "core/backend/jail/jail_limits.h"

#include "core/confine/cgroup_layout.h"

namespace sbx::jail {

confine::Cgroup group_ahead() {
  if (!confine::is_unified_hierarchy()) return {};
  const auto layout = confine::probe_cgroups();
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

}  // namespace sbx::jail
