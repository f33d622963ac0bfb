// Inventory: what a destination has already, so that a copy that was interrupted can go on.
//
// It travels as a tar stream of files without content: whole ones with size and time, unfinished
// ones (part_file.h) with their length and a digest. The packing end reads it before it begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/archive/unpack.h"
#include "core/base/result.h"

namespace sbx::archive {

class Inventory {
 public:
  struct Item {
    std::uint64_t size = 0;
    std::int64_t mtime_ns = 0;
    std::string digest;  ///< set: an unfinished file of this size
  };

  /// Reads a whole inventory from `fd`. Blocks. kLimit when it is longer than fits into 128 MiB.
  static Result<Inventory> read(int fd);
  /// The item of this path in the stream's naming; null when there is none.
  const Item* find(const std::string& path) const;

 private:
  std::unordered_map<std::string, Item> items_;
};

/// Writes to `out` what is below the place where unpack() with the same arguments would write.
/// A place that is not there is an empty inventory. Blocks.
Status write_inventory(const UnpackRequest& request, int out);

}  // namespace sbx::archive
