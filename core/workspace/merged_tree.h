// Merged tree: what a stack of layers shows together, read as overlayfs shows it: whiteouts, opaque
// directories, directories over files and the reverse. Reads only; no link is ever followed.
//
// The rules are those of the kernel with "userxattr", without redirects and metacopy
// (Documentation/filesystems/overlayfs.rst). Owners are as stored.
// A layer may change while it is read (the upper of a running session): what vanishes is absent.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/workspace/beneath.h"

namespace sbx::workspace {

/// Some of a stack's layers: bit 0 is the highest.
using LayerSet = std::uint64_t;

/// A directory of the merged tree: where it is, and the layers whose directories make it up.
struct MergedDir {
  std::string path;  ///< from the root, "" for the root itself
  LayerSet layers = 0;
};

/// What stands at a name.
struct MergedEntry {
  enum class Kind : std::uint8_t { kNone, kWhiteout, kObject };
  std::string name;
  Kind kind = Kind::kNone;  ///< kWhiteout: the highest layer that knows the name deleted it
  struct stat st {};        ///< kObject: of the highest layer's
  std::size_t top = 0;      ///< index of the layer that decided, 0 is the highest
  LayerSet layers = 0;      ///< kObject and a directory: all that make it up
  bool is_cut = false;      ///< a directory that hides what lies below the last of `layers`

  bool is_object() const { return kind == Kind::kObject; }
  bool is_dir() const { return is_object() && S_ISDIR(st.st_mode); }
};

class MergedTree {
 public:
  /// The most layers of one stack.
  static constexpr std::size_t kMaxLayers = 64;

  /// `layers`: readable directories, the highest first; a host directory may be the last one.
  static Result<MergedTree> open(std::vector<UniqueFd> layers);

  std::size_t size() const { return layers_.size(); }
  MergedDir root() const;
  /// All layers above the `shared` lowest ones.
  LayerSet above(std::size_t shared) const;

  /// What stands at `name` in `dir`, whiteouts included.
  Result<MergedEntry> look(const MergedDir& dir, const std::string& name);
  /// The objects of a directory, sorted by name. kLimit beyond kMaxNames.
  Result<std::vector<MergedEntry>> list(const MergedDir& dir);
  /// Names of a directory in these of its layers, whiteouts included, sorted, each once.
  Result<std::vector<std::string>> stored_names(const MergedDir& dir, LayerSet layers);

  /// The object at a path from the root ("" is the root, named ""); nullopt when there is none. The
  /// second is the directory it is in.
  struct Place {
    MergedDir parent;
    MergedEntry entry;
  };
  Result<std::optional<Place>> find(const std::string& path);
  /// An entry of `parent` that is a directory, as a directory.
  static MergedDir enter(const MergedDir& parent, const MergedEntry& entry);

  /// A regular file of `parent` for reading.
  Result<UniqueFd> open_file(const MergedDir& parent, const MergedEntry& entry);
  /// The stored directory that gives an effective one its mode, owner, times and attributes.
  Result<UniqueFd> open_dir(const MergedDir& dir);
  /// The text of a link.
  Result<std::string> read_link(const MergedDir& parent, const MergedEntry& entry);
  /// The stored directory of `dir` in layer `index`; valid until the next call of any function
  /// here. nullopt when it has none (any more).
  Result<std::optional<int>> stored_dir(const MergedDir& dir, std::size_t index);

 private:
  explicit MergedTree(std::vector<UniqueFd> layers);

  Result<bool> is_opaque_at(int dirfd, const std::string& name);

  std::vector<UniqueFd> layers_;
  std::vector<DirCursor> cursors_;  // one for each
};

}  // namespace sbx::workspace
