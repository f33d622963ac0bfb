// Copy file: content (by reference where the file system can share blocks, else with its holes) and
// metadata of one file. Knows nothing of trees.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/result.h"

namespace sbx::workspace {

/// Called now and then with the bytes of data that were copied since the last call; an error ends
/// the copy and is given back.
using OnBytes = std::function<Status(std::uint64_t)>;

struct ContentCopy {
  std::uint64_t bytes = 0;  ///< of data; holes do not count
  bool reflinked = false;   ///< the blocks are shared, nothing was copied
};

/// Whether a copier should still try to share blocks; one for a whole tree.
enum class Reflink : std::uint8_t { kTry, kNever };

/// Copies the content of `in` (from its start, `size` bytes as its stat said) into the empty file
/// `out`: FICLONE (ioctl_ficlone(2)), else each stretch of data by copy_file_range(2) or read and
/// write. `reflink` becomes kNever when the file systems cannot share. Blocks.
Result<ContentCopy> copy_content(
    int in, int out, std::uint64_t size, Reflink& reflink, const OnBytes& on_bytes = {});

/// What of the metadata to set, beside mode and times.
enum class Attributes : std::uint8_t {
  kAll,     ///< every attribute as stored, those of overlayfs included
  kMerged,  ///< without what overlayfs keeps for itself: for one file made of several layers'
};

/// Gives the open file or directory `to` the attributes of the open `from`, then owner, mode and
/// times of `st`. Attributes that only a privileged process may set ("security.", "trusted.") are
/// left out where it may not.
Status copy_metadata(int from, int to, const struct stat& st, Attributes attributes);
/// The same by name without attributes, for links, FIFOs, sockets and device nodes, which have no
/// "user." ones (xattr(7)).
Status copy_metadata_at(int dirfd, const std::string& name, const struct stat& st);

}  // namespace sbx::workspace
