// Tree diff: what is different between two stacks of layers, told one change at a time.
//
// What counts: an object that is new, gone, of another type, or has other content, mode, owner or
// "user." attributes. What does not: times alone, a copy that overlayfs made without a change, a
// whiteout of a name that was never there. A renamed object is one that is gone and one that is
// new. Below a directory that is new or gone everything is told, so a file deleted with its
// directory, or below a directory that was made again, has its own line.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/base/result.h"
#include "core/workspace/merged_tree.h"

namespace sbx::workspace {

/// One object in one of the trees.
struct DiffSide {
  MergedDir parent;
  MergedEntry entry;  ///< kNone when it is not there

  bool is_there() const { return entry.is_object(); }
  mode_t type() const { return is_there() ? entry.st.st_mode & S_IFMT : 0; }
  mode_t mode() const { return is_there() ? entry.st.st_mode & 07777U : 0; }
  /// Bytes of a regular file, 0 for anything else.
  std::uint64_t size() const;
};

struct Change {
  enum class Kind : std::uint8_t { kAdded, kChanged, kDeleted };
  Kind kind = Kind::kChanged;
  std::string path;  ///< from the root of the trees
  DiffSide before;
  DiffSide after;
  // With kChanged: what of it.
  bool has_type = false;
  bool has_content = false;
  bool has_mode = false;
  bool has_owner = false;
  bool has_attributes = false;
};

/// An error ends the walk and is given back.
using OnChange = std::function<Status(const Change&)>;

struct DiffOptions {
  /// How many of the lowest layers are the same in both stacks: what only they hold is not read.
  std::size_t shared = 0;
  /// Whether owners of both stacks can be compared.
  bool has_owners = true;
  /// True for paths that are left out, with everything below; may be empty.
  std::function<bool(const std::string& path)> skip = {};
};

/// Walks both trees; changes come sorted by path, a directory before what is in it. Memory is
/// bounded by the names on the way down (kLimit). Blocks: it reads files of equal size.
Status diff_trees(MergedTree& before,
                  MergedTree& after,
                  const DiffOptions& options,
                  const OnChange& on_change);

/// Whether two regular files have the same `size` bytes; stretches that are holes in both are not
/// read. Blocks.
Result<bool> same_content(int a, int b, std::uint64_t size);

}  // namespace sbx::workspace
