// Apply trees: brings a session's changes of its overlay mounts to the host directories.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/session/trees.h"
#include "core/workspace/apply.h"
#include "core/workspace/path_selection.h"

namespace sbx::session {

struct TreePlan {
  SessionTree* tree = nullptr;  ///< not owned
  UniqueFd host;
  workspace::AppliedNotes notes;
  workspace::ApplyPlan plan;
};

/// A plan for each overlay mount that has changes. `session_dir` is the session's own directory,
/// where notes of what was applied are kept. Changes nothing.
Result<std::vector<TreePlan>> plan_trees(int session_dir,
                                         SessionTrees& trees,
                                         const workspace::PathSelection& chosen);

/// Does one. The caller holds the session's lease. A killed one leaves a hidden directory beside
/// the files, which any later command of sbx removes, and whole files.
Result<workspace::ApplyReport> apply_tree(int session_dir,
                                          const std::string& state_dir,
                                          TreePlan& plan);

}  // namespace sbx::session
