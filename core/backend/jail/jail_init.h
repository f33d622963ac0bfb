// Jail init: the inner half of a launch: PID 1 makes the jail around itself and becomes the agent.
#pragma once

#include "core/base/unique_fd.h"

namespace sbx::jail {

/// Descriptor of the link when PID 1 was exec'd instead of forked.
inline constexpr int kLinkFd = 3;
/// argv[1] of that role.
inline constexpr const char* kInitRole = "internal-jail-init";

/// Runs PID 1 of a jail on `link`; never returns. The process is alone in fresh namespaces and is
/// the direct child of its supervisor.
[[noreturn]] void jail_init_main(UniqueFd link);

}  // namespace sbx::jail
