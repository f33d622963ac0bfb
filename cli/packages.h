// Packages: what makes -P and a profile's `packages` work for the verbs that start sandboxes.
#pragma once

#include "core/profile/profile.h"
#include "core/run/options.h"

namespace sbx::cli {

/// Whether the user is told what is done while it takes long; never said where nobody looks
/// (stderr is no terminal).
enum class Talk : bool { kNo, kYes };

/// The hook for a job whose profile is loaded as `load` says.
run::PackagesHook packages_hook(const profile::LoadRequest& load, Talk talk);

}  // namespace sbx::cli
