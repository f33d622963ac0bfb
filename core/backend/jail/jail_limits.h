// Jail limits: puts a jail's control groups in place, before PID 1 where that saves time.
#pragma once

#include <sys/types.h>

#include "core/backend/jail/jail_plan.h"
#include "core/base/result.h"
#include "core/confine/cgroup.h"

namespace sbx::jail {

/// The group for PID 1 to be cloned into, on a host with cgroup v2 alone: joining one later waits
/// for RCU (11 ms). Where a user has no group, their systemd is asked for one, for 3 s at most.
/// Elsewhere, and where none can be made, an object without groups.
confine::Cgroup group_ahead();

/// Sets the plan's limits and reads them back, in `cgroup` from group_ahead(), or in groups made
/// now. Nothing of the job may run before this has succeeded.
Status set_limits(confine::Cgroup& cgroup, const JailPlan& plan);

/// Has PID 1, not yet reaped, show the limits to what it forks: its processors, and in `plan` the
/// view of `cgroup` only when it started in there. Best effort: nothing is held by it.
void show_limits(const confine::Cgroup& cgroup, pid_t pid, JailPlan& plan);

}  // namespace sbx::jail
