// Import: makes an image of an archive or of an OCI layout directory.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/image/store.h"

namespace sbx::image {

/// What one import may bring. What is over it is kLimit by name.
struct Budget {
  Bytes bytes{std::uint64_t{64} << 30U};  ///< content of all layers, holes included
  std::uint64_t entries = 10'000'000;
  std::size_t depth = 200;  ///< directories above an entry
  /// Most bytes that come out of one byte of a compressed stream (beyond the first 16 MiB).
  std::uint64_t ratio = 1'000;
};

/// What of the source is not in the image.
struct LeftOut {
  std::uint64_t devices = 0;  ///< device nodes, sockets and kinds that are not known
  std::uint64_t xattrs = 0;   ///< attributes that are not "user." or file capabilities, ACLs
};

/// How far an import is. Lies in memory that is shared with forks of this process.
struct ImportProgress {
  std::atomic<std::uint64_t> read;   ///< bytes of the source
  std::atomic<std::uint64_t> total;  ///< 0: not known
  std::atomic<std::uint64_t> entries;
};

struct ImportRequest {
  std::string path;    ///< FILE, DIR, or "-" for standard input
  std::string name;    ///< of the image
  std::string tag;     ///< of several in one archive: the one to take; empty: the only one
  std::string source;  ///< for Record::source
  Budget budget;
  ImportProgress* progress = nullptr;
  LeftOut* left_out = nullptr;  ///< of the layers that were not there yet
};

/// Reads the source; either the name has the whole image at the end, or nothing is left
/// but layers that no name refers to. Layers that are in the store are not unpacked again; of a
/// file or a directory they are not even read. Flushes the file system of the store. Blocks, long.
Result<Record> import_image(const Store& store, const ImportRequest& request);

}  // namespace sbx::image
