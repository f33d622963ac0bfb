// Roles: what a process of ours does when it is not the command line.
#include "cli/roles.h"

#include "core/backend/jail/jail_init.h"

namespace sbx::cli {

int run_role(std::string_view /*role*/) { return jail::jail_init_main(0); }

}  // namespace sbx::cli
