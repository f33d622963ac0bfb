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
};

/// Reads the source in one pass; either the name has the whole image at the end, or nothing is left
/// but layers that no name refers to. Blocks, long.
Result<Record> import_image(const Store& store, const ImportRequest& request);

}  // namespace sbx::image
