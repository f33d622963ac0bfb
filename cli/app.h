// App: from argv to an exit status, once it is clear that this process is the command line.
#pragma once

#include <span>

namespace sbx::cli {

/// Finds the verb, reads its flags, does it. `argv` is main's, argv[0] included; the result is the
/// exit status.
int run_cli(std::span<const char* const> argv);

}  // namespace sbx::cli
