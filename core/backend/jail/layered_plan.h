// Layered plan: how a plan changes when the root is an overlay of layers: one that keeps what is
// written to it (backend::WritableRoot), or an image's. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/confine/mount_op.h"

namespace sbx::jail {

/// Part of a layer that belongs to the root.
inline constexpr std::string_view kRootPart = "root";
/// Part of a layer that belongs to the host directory that is mounted `overlay` at `target`.
std::string overlay_part(std::string_view target);

/// The steps of a whole plan (base and job's) for such a root, told apart.
struct LayeredSteps {
  std::vector<confine::Step> objects;  ///< MakeDir, MakeFile, MakeLink of the base layer
  std::vector<confine::Step> steps;    ///< for PID 1, after the root itself is mounted
};

struct LayeredRequest {
  size_t base_size = 0;               ///< so many of the steps are the base's
  std::vector<std::string> job_dirs;  ///< directories of the root that are the job's
  int32_t job_owner = confine::kKeepOwner;
};

/// What the base makes in the root comes with the base layer. For PID 1 there remain the mounts,
/// and of the objects those without which a start would fail, as Place: a former run may have
/// removed or replaced them. What is to be in the scratch space is made there. /dev is a small
/// tmpfs that the job cannot change, because PID 1 opens terminals in there.
LayeredSteps layer_steps(std::vector<confine::Step> steps, const LayeredRequest& request);

}  // namespace sbx::jail
