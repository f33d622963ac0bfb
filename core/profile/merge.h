// Merge: puts layer over layer: files, SBX_* variables, flags. Later values win; env merges by
// name, mounts by target, other lists are replaced as a whole.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/profile/diagnostics.h"
#include "core/profile/profile.h"
#include "core/profile/values.h"
#include "core/profile/yaml.h"

namespace sbx::profile {

/// The values of one file over `profile`.
void merge_file(const YamlNode& root,
                const Source& source,
                Profile& profile,
                Diagnostics& diagnostics);
/// The values of SBX_* variables.
void merge_variables(const EnvLookup& env, Profile& profile, std::vector<Diagnostic>& mistakes);
/// The values of flags; relative mount sources start at `source.base_dir`.
void merge_overrides(std::span<const Override> overrides,
                     const Source& source,
                     Profile& profile,
                     std::vector<Diagnostic>& mistakes);

/// The value of a top-level key; nullptr when the tree has none.
const YamlNode* find_value(const YamlNode& root, std::string_view key);

}  // namespace sbx::profile
