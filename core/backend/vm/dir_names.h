// Dir names: what is in one of our own directories below the state directory.
#pragma once

#include <string>
#include <vector>

namespace sbx::vm {

/// All names in `dir` but "." and "..", in no order; none when it cannot be read.
std::vector<std::string> dir_names(int dir);

}  // namespace sbx::vm
