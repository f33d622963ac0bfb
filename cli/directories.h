// Directories: where sbx keeps what it must remember, as the command line hands it to the engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/profile/profile.h"

namespace sbx::cli {

struct Directories {
  std::string state;             // absolute; exists, 0700 and ours
  std::vector<std::string> all;  // state, runtime and configuration: no mount may enter them
};

/// Finds them, makes the state directory when it is missing. Needs no environment variable.
Result<Directories> directories();

enum class Trust : std::uint8_t { kIfPossible, kNeeded };

/// What profile verbs ask the profile library with. Without a usable state directory no project's
/// profile is trusted; that is an error only for kNeeded.
Result<profile::LoadRequest> profile_request(Trust trust);

}  // namespace sbx::cli
