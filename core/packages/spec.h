// Spec: what is asked for - kinds of packages, -P SPEC, and who may have which name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/profile/profile.h"

namespace sbx::packages {

enum class Kind : std::uint8_t { kPip, kNpm };
std::string_view name(Kind kind);

/// What a package without a kind in front belongs to, by the profile's interpreter; nullopt for a
/// profile of another language.
std::optional<Kind> kind_of(const profile::Language& language);

/// The name in a spec that is none to complain about.
std::string_view spec_name(Kind kind, std::string_view spec);

/// Adds each of -P SPEC to the profile's lists; one that names a package of the profile takes its
/// place. kUsage names the spec.
Status add_wanted(const std::vector<std::string>& wanted, profile::Profile& profile);

/// The one spelling of a name that two names are compared by: lower case, and for Python with one
/// "-" for any of "-_.".
std::string folded_name(Kind kind, std::string_view name);

/// Why `name` may not be added, as the end of a sentence ("is refused by packages.deny of FILE"),
/// or empty. Pure.
std::string policy_complaint(const std::vector<profile::PackagePolicy>& policies,
                             Kind kind,
                             std::string_view name);

/// Whether `text` is `pattern`, in which "*" stands for any characters.
bool is_like(std::string_view pattern, std::string_view text);

}  // namespace sbx::packages
