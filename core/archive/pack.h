// Pack: writes a file or a tree as a tar stream, seen through descriptors only.
//
// Theory of operation
//   1. The path that the user gave is resolved once, as `root` says, to its parent directory.
//   2. From there each step down is an openat2(2) of one component that follows no link and no
//      magic link, so a name that is swapped for a link meanwhile is refused and never followed.
//   3. Only plain files, directories and links are taken; what cannot be is noted and the rest goes
//      on. A plain file is opened without waiting and must be one still.
//   4. Holes are found with SEEK_DATA; a second name of a file becomes a hard link in the stream.
#pragma once

#include <string>

#include "core/archive/inventory.h"
#include "core/archive/transfer.h"
#include "core/base/result.h"

namespace sbx::archive {

struct PackRequest {
  Root root = Root::kHost;
  std::string path;           ///< bytes; relative ones from the working directory
  std::string root_name;      ///< what the tree is called in the stream; empty: its content only
  bool is_following = false;  ///< a link at the end of `path` is followed (it ended in '/')
  /// What the owner made unreadable for itself is made readable for a moment. Only for trees that
  /// nobody else's files can get into.
  bool is_opening_all = false;
  bool is_announcing_total = false;  ///< walks twice; the reader then knows how much will come
  const Inventory* present = nullptr;
  TransferProgress* progress = nullptr;
};

/// Writes the whole stream to `out`. Blocks. What could not be taken along is in `report`; an error
/// is returned when nothing more can be written or the path itself is not there.
Status pack(const PackRequest& request, int out, TransferReport& report);

}  // namespace sbx::archive
