// Remove stored: deletes a tree of the state directory whoever its files belong to.
#pragma once

#include <string>

#include "core/base/result.h"

namespace sbx::confine {

/// fs::remove_tree(); what the caller may not remove because it belongs to ids of a sandbox (see
/// storage_ids.h) is removed as root of those. Blocks. Only for processes with one thread.
Status remove_stored(int dirfd, const std::string& name);

}  // namespace sbx::confine
