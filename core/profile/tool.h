// Tool: which of the host's files a program of its own needs inside, found by looking at the host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/profile/profile.h"

namespace sbx::profile {

/// What has to be shown, read-only and at the same paths, so that `tool` runs inside: the tree it
/// is installed in (PREFIX of PREFIX/bin/NAME) and, along its links, those of what they lead to.
/// What every sandbox sees anyway (/usr …) is left out. Where PREFIX holds more than programs (the
/// home directory, a hidden directory in it, a directory directly below /), only the file is shown.
/// Errors end a sentence that begins with the path: it is missing, no program, a version manager's
/// script, or leads out of the project (`tool.beneath`).
Result<std::vector<Mount>> tool_mounts(const HostTool& tool, std::string_view home);

}  // namespace sbx::profile
