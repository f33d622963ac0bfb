// Roles: what a process of ours does when it is not the command line.
#pragma once

#include <string_view>

namespace sbx::cli {

/// Does the work of `role`, one of the names that role_of() gives, and ends the process.
[[noreturn]] void run_role(std::string_view role);

}  // namespace sbx::cli
