// Directories: where sbx keeps what it must remember, as the command line hands it to the engine.
#include "cli/directories.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "core/host/paths.h"

namespace sbx::cli {

Result<Directories> directories(State state) {
  Directories out;
  Result<host::Dir> found = host::open_state_dir();
  if (found.ok()) {
    out.state = std::move(found).value().path;
    out.all.push_back(out.state);
  } else if (state == State::kNeeded || profile::process_env("SBX_STATE_DIR")) {
    return std::move(found).error();
  }
  if (auto config = host::config_dir()) out.all.push_back(*std::move(config));
  auto runtime = profile::process_env("XDG_RUNTIME_DIR");
  if (runtime && runtime->starts_with('/')) out.all.push_back(*runtime + "/sbx");
  if (::geteuid() == 0) out.all.emplace_back("/run/sbx");
  return out;
}

Result<profile::LoadRequest> profile_request(State state) {
  SBX_ASSIGN(Directories dirs, directories(state));
  profile::LoadRequest request;
  request.state_dir = std::move(dirs.state);
  request.private_dirs = std::move(dirs.all);
  return request;
}

}  // namespace sbx::cli
