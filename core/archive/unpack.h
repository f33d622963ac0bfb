// Unpack: writes the members of a hostile tar stream below one directory and nowhere else.
//
// Theory of operation
//   1. The place that the user gave is resolved once, as `root` says, to a directory descriptor
//      and, where a new name is to appear, that name.
//   2. A member's path is checked as text (member_components), must lie in the tree that was asked
//      for, and is walked by openat2(2) of one component at a time, which follows no link: neither
//      one that the stream itself made, nor one that was there, nor one swapped in meanwhile.
//   3. A file is put together under a hidden name (part_file.h) and renamed, so that its final name
//      never shows half a file, and a link that lies there is replaced and not written through.
//   4. Hard links are made to what lies below the same directory, found in the same way.
//   5. Modes and times of directories are set through their descriptors when they are left.
// The first failure ends it. What was complete before stays.
#pragma once

#include <cstdint>
#include <string>

#include "core/archive/transfer.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::archive {

/// Which members a stream may have.
enum class Members : std::uint8_t {
  kOneTree,  ///< those of `root_name`, as pack() names them
  kAny,      ///< any below `path`, which must be a directory
};

struct UnpackRequest {
  Root root = Root::kHost;
  /// An existing directory: the copy goes into it. Else: the copy gets this name.
  std::string path;
  Members members = Members::kOneTree;
  std::string root_name;          ///< as the packing end has it; empty: only content
  bool is_keeping_parts = false;  ///< an interrupted large file stays, to be gone on with
  std::uint64_t max_entries = 100'000'000;
  std::uint64_t max_bytes = UINT64_MAX;  ///< of content
  TransferProgress* progress = nullptr;
};

/// Where the members go.
struct UnpackTarget {
  UniqueFd dir;
  std::string name;  ///< set: the tree gets this name in `dir`; else members keep theirs
  bool is_directory_wanted = false;
};

/// kNotFound when there is no such place, or its parent is not there.
Result<UnpackTarget> resolve_target(const UnpackRequest& request);

/// Reads the stream `in` to its end. Blocks.
Status unpack(const UnpackRequest& request, int in, TransferReport& report);

}  // namespace sbx::archive
