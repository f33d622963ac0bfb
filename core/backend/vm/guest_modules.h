// Guest modules: the kernel's drivers, which the initramfs brings along in the order to load them.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"

namespace sbx::vm {

/// Loads every file that "<dir>/order" names, one a line, and removes them: they are memory. Stops
/// at the first that the kernel refuses; one that is built in or loaded already is fine. No
/// directory: the kernel needs none. Blocks.
Status load_modules(const std::string& dir);

/// Names of what this kernel can do for a sandbox, for control::Hello::features.
std::vector<std::string> guest_features();

}  // namespace sbx::vm
