// Tree path: opens what the user named, and what lies below it one component at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/archive/transfer.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::archive {

/// openat2(2)'s `resolve` for every component below what the user named.
extern const std::uint64_t kBelow;

/// A path as the user gave it, cut before its last component.
struct SplitPath {
  std::string parent;      ///< "." or "/" where there is none
  std::string name;        ///< without slashes; empty for "/" and the like
  bool has_slash = false;  ///< it ended in '/'
  /// The last component is "." or "..", or there is none: the directory itself is meant.
  bool is_content = false;
};
SplitPath split_path(std::string_view path);

/// What a copy of `path` is called at its destination; empty when its content is meant.
std::string name_of_copy(std::string_view path);

/// Opens the directory that the user named, following links. `flags` are added to O_DIRECTORY.
Result<UniqueFd> open_named_dir(Root root, const std::string& path, int flags);

/// Opens one component below `dirfd`, never a link. `flags` get O_NOFOLLOW, O_NONBLOCK, O_NOCTTY.
Result<UniqueFd> open_below(int dirfd, const std::string& name, int flags, mode_t mode = 0);

/// The components of a member's path. kProtocol for one that leaves the tree or is no name: empty,
/// absolute, "..", a NUL byte, a component above 255 bytes, more than kMaxTransferDepth of them.
/// "." components and doubled slashes are dropped; none is left for the root of the tree.
Result<std::vector<std::string>> member_components(std::string_view path);

}  // namespace sbx::archive
