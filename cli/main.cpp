// Main: picks the role of this process before anything is parsed.
#include <span>

#include "cli/app.h"
#include "cli/argv.h"
#include "cli/output.h"
#include "cli/roles.h"
#include "core/backend/vm/guest_init.h"
#include "core/base/arguments.h"
#include "core/base/exit_code.h"

int main(int argc, char** argv) {
  sbx::remember_arguments(argc, argv);
  try {
    std::span<const char* const> words(argv, argc < 0 ? 0U : static_cast<std::size_t>(argc));
    std::string_view role = sbx::cli::role_of(words);
    if (!role.empty()) sbx::cli::run_role(role);
    if (sbx::vm::is_guest_init(words)) sbx::vm::guest_init_main();
    sbx::cli::fill_standard_descriptors();
    return sbx::cli::run_cli(words);
  } catch (...) {  // no code of ours throws: this is out of memory, or a bug
    sbx::cli::report_exception();
    return sbx::kExitSandbox;
  }
}
