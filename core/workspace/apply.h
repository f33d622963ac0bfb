// Apply: brings what a session changed in a host directory that was mounted `overlay` to that
// directory.
//
// The host directory is live: its owner may have worked in it meanwhile. When a session first
// changes a file, overlayfs makes a file (or a whiteout) of its own in the upper, whose birth time
// therefore says when the session took the host's file for its own. A host file whose time of
// change (ctime) is later than that, and that is not as an earlier apply left it (AppliedNotes), is
// a conflict. With any conflict nothing is applied, unless it is forced. What the session changed
// and the host removed is new again. The whiteouts of one mount share an inode and so a birth time:
// a deletion may be refused although the host's change came first, never the other way round.
// Copied layers (checkpoints of running sessions) have later birth times; `since` bounds them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/workspace/applied_notes.h"
#include "core/workspace/merged_tree.h"
#include "core/workspace/tree_diff.h"

namespace sbx::workspace {

enum class ApplyAction : std::uint8_t {
  kDelete,   ///< a file, or a directory that is empty by then
  kMakeDir,  ///< a new directory
  kWrite,    ///< a regular file, new or in place of what is there
  kLink,     ///< a symbolic link, ditto
  kSetMode,  ///< permissions (and attributes, of a directory)
  kSkip,     ///< nothing: see `reason`
};

struct ApplyStep {
  ApplyAction action = ApplyAction::kSkip;
  Change change;  ///< its path is relative to the host directory
  bool is_conflict = false;
  std::string reason;  ///< of a conflict or a skip; else empty
};

/// In the order in which it is done: deletions from the leaves up, then the rest from the root
/// down.
struct ApplyPlan {
  std::vector<ApplyStep> steps;
  std::size_t conflicts = 0;
};

struct ApplyRequest {
  int host = -1;                    ///< the host directory, readable
  MergedTree* before = nullptr;     ///< of the host directory alone
  MergedTree* after = nullptr;      ///< of the session's layers upon it
  std::vector<std::int64_t> since;  ///< layer_since() of the layers of `after`, the highest first
  const AppliedNotes* notes = nullptr;
  std::function<bool(const std::string& path)> is_chosen;  ///< empty: all are
};

/// What would be done; changes nothing. kLimit beyond a million changes. Blocks.
Result<ApplyPlan> plan_apply(const ApplyRequest& request);

struct ApplyReport {
  std::uint64_t applied = 0;
  std::vector<std::string> failed;  ///< "path: why", the first ones
  std::uint64_t failed_count = 0;
};

/// Does the plan. Contents are put together in `scratch` (a directory of the caller on the same
/// file system) and renamed to their places; no link on the way is followed; a host file that is
/// not as it was when the plan was made is left alone and reported. New files belong to the caller
/// and have no set-user-ID and set-group-ID bits; a file that replaces another keeps that one's
/// owner where the caller may give it. Goes on after a failure. `notes` gets what was written.
/// Blocks.
Result<ApplyReport> apply(const ApplyRequest& request,
                          const ApplyPlan& plan,
                          int scratch,
                          AppliedNotes& notes);

}  // namespace sbx::workspace
