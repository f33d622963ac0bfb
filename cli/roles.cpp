// Roles: what a process of ours does when it is not the command line.
#include "cli/roles.h"

#include "core/backend/jail/jail_init.h"

namespace sbx::cli {

void run_role(std::string_view /*role*/) {
  jail::jail_init_main(UniqueFd(jail::kLinkFd));
}

}  // namespace sbx::cli
