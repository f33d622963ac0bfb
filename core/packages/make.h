// Make: chooses and installs packages, in a sandbox of its own with the root and the interpreter of
// the job that wants them, and nothing else of the host but the directory of archives.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/packages/lock_file.h"
#include "core/packages/spec.h"
#include "core/profile/profile.h"
#include "core/run/options.h"

namespace sbx::packages {

/// Where a set is seen inside while it is made; for Python also afterwards.
inline constexpr std::string_view kPipTarget = run::kPipPackagesPath;
inline constexpr std::string_view kNpmMakingTarget = "/run/sbx/packages/npm";
/// Where every script and module of Node.js looks, however it is loaded.
inline constexpr std::string_view kNpmTarget = "/node_modules";

struct MakeRequest {
  Kind kind = Kind::kPip;
  const profile::Profile* profile = nullptr;  ///< of the job
  std::vector<std::string> wants;             ///< specs
  const Locked* pinned = nullptr;             ///< exactly these instead; may be null
  std::string tree;                           ///< absolute: the empty directory to fill
  std::string state_dir;
  std::vector<std::string> private_dirs;
};

/// Fills the tree; what is in it, sorted. kUsage: the source has nothing that fits (the hint says
/// how to fill it) or not what the lock file names; kUnsupported with the fix: no pip or npm.
/// Blocks until the sandbox has ended.
Result<Locked> make_tree(const MakeRequest& request);

}  // namespace sbx::packages
