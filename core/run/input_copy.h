// Input copy: puts inputs into /work that could not be mounted there.
#pragma once

#include <span>

#include "core/backend/backend.h"
#include "core/base/result.h"

namespace sbx::run {

/// Copies each input to its name below `work_dir`, as files that belong to that directory's owner
/// and are read-only. Links are copied as links; special files are left out. Blocks.
Status copy_inputs(int work_dir, std::span<const backend::InputMount> inputs);

}  // namespace sbx::run
