// Add: from a wish to what a sandbox mounts - policy, lock file, the kept set or a new one.
//
// Theory of operation
//  1. Names that are asked for pass the policy: the profile's own, and those of the user's and the
//     system's base.yaml.
//  2. A lock file that was made for the same wish says exactly what the set is; without one a wish
//     (specs, interpreter, state of the source directory) may be known to have come to a set.
//  3. Else the set is made (make.h) by whoever holds the lock of the wish; the others find it.
//  4. Everything in the set passes the policy, what others need too; then it goes into the profile:
//     a mount and items of PATH, PYTHONPATH, NODE_PATH.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/profile/profile.h"
#include "core/run/options.h"

namespace sbx::packages {

struct Context {
  profile::LoadRequest load;  ///< as for the job's profile: directories, environment
  /// Told what is being done when it takes a while; may be empty.
  std::function<void(std::string_view)> notice;
};

/// The hook for run::Options and session::NewSession.
run::PackagesHook hook(Context context);

}  // namespace sbx::packages
