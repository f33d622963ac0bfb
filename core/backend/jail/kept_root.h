// Kept root: the directories, files and links that the root of every jail has, made once on this
// host and then shown read-only to each jail, because making them anew takes PID 1 a third of its
// set-up.
//
// One directory per content below host::kept_roots_dir(), named by the content's digest: another
// host tree or another sbx makes another one. Whoever uses one holds a shared lock on it; whoever
// makes a new one removes old ones that nobody holds. A jail whose plan needs an object of its own
// in the root gets a tmpfs instead (confine::NewRoot).
// So does every jail of a user without XDG_RUNTIME_DIR (see host::kept_roots_dir).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/mount_op.h"

namespace sbx::jail {

/// The base's steps, told apart. Sound because no object of the base lies on one of its mounts.
struct SplitBase {
  confine::NewRoot own;                ///< the root where it is not kept
  confine::KeptRoot kept;              ///< the root where it is; its place is still to be filled in
  std::vector<confine::Step> objects;  ///< MakeDir, MakeFile, MakeLink, in their order
  std::vector<confine::Step> mounts;   ///< what is left
};
/// Pure.
SplitBase split_base(std::vector<confine::Step> base);
/// The steps of a base with a kept root: its mounts on `kept`. Pure.
std::vector<confine::Step> on_kept_root(SplitBase split);
/// The same with a root of its own, in which the objects are made. Pure.
std::vector<confine::Step> on_own_root(SplitBase split);

struct KeptRootDir {
  std::string path;
  UniqueFd held;  ///< the directory, locked: keep it open for as long as the jail lives
};

/// The kept directory with exactly `objects`, made when it is not there yet: below `parent`, which
/// is ours alone. Atomic: a temporary directory, fdatasync, rename. kTimeout when somebody removes
/// it just now.
Result<KeptRootDir> open_kept_root(const std::string& parent,
                                   std::span<const confine::Step> objects);

}  // namespace sbx::jail
