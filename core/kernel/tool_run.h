// Tool run: a program of the host run to its end in a directory, with what it says.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"

namespace sbx::kernel {

struct Said {
  std::string out;  ///< at most a MiB
  std::string err;  ///< the end of it
  int status = 0;   ///< as of wait(2)

  bool has_succeeded() const;
};

/// Its stdin is empty, its language C; it ends when this process does. `argv[0]` is a path. Blocks
/// as long as it runs.
Result<Said> run_tool(const std::vector<std::string>& argv, const std::string& cwd);

}  // namespace sbx::kernel
