// Check: rules that concern more than one key, once all layers are merged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/profile/profile.h"

namespace sbx::profile {

/// What is wrong with the whole, each at the place that set the offending value last.
std::vector<Diagnostic> check_whole(const Profile& profile,
                                    const std::vector<std::string>& private_dirs);

/// A mistake at the place that set `key` last.
Diagnostic at_origin(const Profile& profile, std::string_view key, std::string message);

}  // namespace sbx::profile
