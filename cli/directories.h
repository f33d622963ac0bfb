// Directories: where sbx keeps what it must remember, as the command line hands it to the engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/profile/profile.h"

namespace sbx::cli {

struct Directories {
  std::string state;             // absolute; exists, 0700 and ours; empty: there is none
  std::vector<std::string> all;  // state, runtime and configuration: no mount may enter them
};

enum class State : std::uint8_t { kIfPossible, kNeeded };

/// Finds them, makes the state directory when it is missing. Needs no environment variable. A state
/// directory that cannot be had is an error when it is needed, or named by SBX_STATE_DIR.
Result<Directories> directories(State state);

/// What profile verbs ask the profile library with. Without a state directory no project's profile
/// is trusted.
Result<profile::LoadRequest> profile_request(State state);

}  // namespace sbx::cli
