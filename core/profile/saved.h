// Saved: a loaded profile as JSON text, exactly, with where each value came from; so that a session
// can be started again as it was although files, variables and flags have changed.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/profile/profile.h"

namespace sbx::profile {

/// One line. Holds the values of `env`, so it is as private as they are.
std::string save(const Profile& profile);

/// The reverse. Keys that were not known when it was saved keep their standard values. kProtocol
/// for rubbish, and for a key or a kind of value that this version does not know.
Result<Profile> restore(std::string_view text);

}  // namespace sbx::profile
