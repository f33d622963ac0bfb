// Diff text: a session's changes as lines of text: names, counts, a patch, or JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/session/trees.h"
#include "core/workspace/path_selection.h"
#include "core/workspace/tree_diff.h"

namespace sbx::session {

enum class DiffStyle : std::uint8_t {
  kNames,  ///< "M /work/a (content)"
  kStat,   ///< " /work/a | 3 ++-" and a sum
  kPatch,  ///< as git prints it, names without the leading '/'
  kJson,   ///< one object a line
};

/// Where text goes, in pieces.
using AddText = std::function<Status(std::string_view)>;

class DiffText {
 public:
  /// With `is_terminal`, contents of files in a patch are escaped like names.
  DiffText(DiffStyle style, bool is_terminal) : style_(style), is_terminal_(is_terminal) {}

  /// The text of one change.
  Result<std::string> of(SessionTree& tree, const workspace::Change& change);
  /// What stands at the end.
  std::string end() const;

 private:
  Result<std::string> stat_of(SessionTree& tree, const workspace::Change& change);
  Result<std::string> patch_of(SessionTree& tree, const workspace::Change& change);

  DiffStyle style_;
  bool is_terminal_;
  std::uint64_t files_ = 0;
  std::uint64_t added_ = 0;
  std::uint64_t deleted_ = 0;
};

/// The path of a change as it is inside, with the leading '/'.
std::string inside_path(const SessionTree& tree, std::string_view path);

/// Walks all trees. Changes that are sbx's own and those not chosen are left out. Blocks.
Status print_diff(SessionTrees& trees,
                  const workspace::PathSelection& chosen,
                  DiffText& text,
                  const AddText& add);

}  // namespace sbx::session
