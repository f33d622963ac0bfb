// Jail limits: puts a jail's control groups in place, before PID 1 where that saves time.
#pragma once

#include "core/backend/jail/jail_plan.h"
#include "core/base/result.h"
#include "core/confine/cgroup.h"

namespace sbx::jail {

/// The group for PID 1 to be cloned into, on a host with cgroup v2 alone: joining one later waits
/// for RCU (11 ms). Elsewhere, and where none can be made, an object without groups.
confine::Cgroup group_ahead();

/// Sets the plan's limits and reads them back, in `cgroup` from group_ahead(), or in groups made
/// now. Nothing of the job may run before this has succeeded.
Status set_limits(confine::Cgroup& cgroup, const JailPlan& plan);

}  // namespace sbx::jail
