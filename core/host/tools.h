// Tools: commands that mean one file to the user and another to a sandbox.
//
// Pure: what is on the disk comes through a function. It runs nothing.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sbx::host {

/// The executable regular file that `path` leads to, without links; nullopt when there is none.
using ExecutableLookup = std::function<std::optional<std::string>(const std::string& path)>;
/// Asks the disk: realpath(3) and faccessat(2) with X_OK.
std::optional<std::string> executable_at(const std::string& path);

struct ToolDifference {
  std::string command;  ///< "python3"
  std::string own;      ///< what the user gets, as found in PATH: "/home/u/.pyenv/shims/python3"
  std::string inside;   ///< what a sandbox gets; empty when it has none
};

/// Those of `commands` for which the user's PATH and the sandbox's name different files, in this
/// order. A command that the user does not have is none of them. Empty and relative directories of
/// the user's PATH are passed over.
std::vector<ToolDifference> differing_tools(std::span<const std::string_view> commands,
                                            std::string_view own_path,
                                            std::string_view inside_path,
                                            const ExecutableLookup& lookup = executable_at);

}  // namespace sbx::host
