// Staged: what the parent opens for the overlays of a jail, because the job's ids could not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/backend/jail/jail_plan.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/idmap.h"

namespace sbx::jail {

/// Maps the owner of the detached `mount` to the job, whose ids on the host these are. kUnsupported
/// when its file system cannot.
Status map_owner(int mount, const backend::User& job_on_host);

/// The base layer of a root that is thrown away, kept in the state directory's store of layers and
/// locked as long as `held` is open, so that nobody removes it.
struct HeldLayer {
  std::string path;
  UniqueFd held;
};
Result<HeldLayer> hold_base_layer(const JailPlan& plan);

/// Puts a layer that is known only now into the plan that waits for it.
void set_staged(JailPlan& plan, size_t index, const std::string& path);

/// Makes the upper ready and, with a range, opens what overlays are made of, behind `mounts`:
/// layers with the ids of storage mapped to the range, the user's directories with their owner
/// mapped to the job. Without a range PID 1 opens them itself.
Status open_staged(const JailPlan& plan,
                   const std::optional<confine::IdRange>& range,
                   std::vector<UniqueFd>& mounts);

}  // namespace sbx::jail
