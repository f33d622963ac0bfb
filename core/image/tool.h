// Tool: a program of the host that works for us, found also where a user's PATH does not look.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sbx::image {

/// Its path: in PATH, else in the usual directories, those of administrators included.
std::optional<std::string> find_tool(std::string_view name);

}  // namespace sbx::image
