// Variables: which SBX_* variables mean something, and what to say of those that do not.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sbx::cli {

/// One sentence for each "NAME=VALUE" whose name begins with SBX_ and means nothing to sbx: a
/// mistyped one would otherwise be a limit that is not in force.
std::vector<std::string> unknown_variables(std::span<const std::string_view> environment);

/// The same for the process's environment.
std::vector<std::string> unknown_variables();

}  // namespace sbx::cli
