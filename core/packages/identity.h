// Identity: what a choice of packages depends on besides the wish - the interpreter and the state
// of the source directory - as texts that are compared, found without starting anything.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/packages/spec.h"
#include "core/profile/profile.h"

namespace sbx::packages {

/// The word that starts the interpreter inside: the profile's own where it runs that kind.
std::string interpreter_word(Kind kind, const profile::Language& language);

/// Changes when another interpreter is used: by an upgrade, another language.path, another image
/// (`image_id`, empty for the host's root). kUnsupported with the package to install when this host
/// has none.
Result<std::string> interpreter_identity(Kind kind,
                                         const profile::Profile& profile,
                                         const std::string& image_id);

/// Opens a directory that a profile names, below the profile's own where it is fenced.
Result<UniqueFd> open_source(const profile::HostPath& source);

/// Changes when an archive in the directory does: their names, sizes and times.
Result<std::string> source_state(int dir);

}  // namespace sbx::packages
