// Trees: what the layers of a session show, opened for reading, with no sandbox needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/session/record.h"
#include "core/session/store.h"
#include "core/workspace/merged_tree.h"

namespace sbx::session {

/// One mounted tree of a session, as it was and as it is: the root, or a host directory that is
/// mounted `overlay`.
struct SessionTree {
  std::string target;  ///< where it is inside, without the leading '/'; "" is the root
  std::string part;    ///< of the layers
  std::string host;    ///< the host directory; empty for the root
  workspace::MergedTree before;
  workspace::MergedTree after;
  std::size_t shared = 0;           ///< lowest layers that both have in common
  std::vector<std::int64_t> since;  ///< workspace::layer_since() of each layer of `after`
};

struct SessionTrees {
  std::vector<SessionTree> trees;     ///< the root first, the others by target
  std::vector<std::string> problems;  ///< why trees are missing, e.g. a host directory that is gone
  /// Inside paths (as `target`) that are not the root's own: other mounts of the session, and what
  /// is made anew at each start.
  std::vector<std::string> foreign;
};

/// Opens them. `before` is the checkpoint `since`; with an empty one, what the session began with:
/// the base, and the host directories as they are now. kNotFound for a checkpoint that is not
/// there.
Result<SessionTrees> open_trees(const Store& store, const Record& record, const std::string& since);

/// Whether an object at `path` (as `target`) in `tree` is sbx's own and no change of the user:
/// below a foreign path, or moved aside by a start that found it in the way of a mount.
bool is_own(const SessionTrees& trees, const SessionTree& tree, std::string_view path);

}  // namespace sbx::session
