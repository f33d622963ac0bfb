// Lead: finds the place of a user's mount in the tree of an image, where links may lead anywhere.
// See mount_op.h.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/confine/mount_op.h"

namespace sbx::confine {

/// Where `step.path` leads below `root`, which nobody else writes to meanwhile: the same place as a
/// path without links. What is missing is made, in `root` itself or in the file system of `scratch`
/// (-1: none), never in anything else that is mounted there. kUsage, with the place, when that is
/// one of the sandbox's own or something else is in the way.
Result<std::string> lead(int root, int scratch, const Lead& step);

}  // namespace sbx::confine
