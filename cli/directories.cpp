// Directories: where sbx keeps what it must remember, as the command line hands it to the engine.
#include "cli/directories.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "core/host/paths.h"

namespace sbx::cli {

Result<Directories> directories() {
  SBX_ASSIGN(host::Dir state, host::open_state_dir());
  Directories out;
  out.state = state.path;
  out.all.push_back(std::move(state.path));
  if (auto config = host::config_dir()) out.all.push_back(*std::move(config));
  if (auto runtime = profile::process_env("XDG_RUNTIME_DIR");
      runtime && runtime->starts_with('/')) {
    out.all.push_back(*runtime + "/sbx");
  }
  if (::geteuid() == 0) out.all.emplace_back("/run/sbx");
  return out;
}

Result<profile::LoadRequest> profile_request(Trust trust) {
  profile::LoadRequest request;
  Result<Directories> dirs = directories();
  if (dirs.ok()) {
    request.state_dir = std::move(dirs.value().state);
    request.private_dirs = std::move(dirs.value().all);
  } else if (trust == Trust::kNeeded) {
    return std::move(dirs).error();
  }
  return request;
}

}  // namespace sbx::cli
