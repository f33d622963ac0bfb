// Staged: what the parent opens for the overlays of a jail, because the job's ids could not.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/backend/jail/jail_plan.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/idmap.h"

namespace sbx::jail {

/// Maps the owner of the detached `mount` to the job's id. kUnsupported when its file system
/// cannot.
Status map_owner(int mount, uint32_t job_host_id);

/// Puts the throw-away layer into the plan that waits for it.
void use_throwaway(JailPlan& plan, const ThrowawayLayer& layer);

/// Makes the upper ready and, with a range, opens what overlays are made of, behind `mounts`:
/// layers with the ids of storage mapped to the range, the user's directories with their owner
/// mapped to the job. Without a range PID 1 opens them itself.
Status open_staged(const JailPlan& plan,
                   const std::optional<confine::IdRange>& range,
                   std::vector<UniqueFd>& mounts);

}  // namespace sbx::jail
