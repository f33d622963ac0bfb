// Tar entry: one member of a tar stream as it travels, with what a copy keeps of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/archive/archive.h"

namespace sbx::archive {

enum class TarType : std::uint8_t {
  kFile,
  kDirectory,
  kSymlink,
  kHardLink,
  kSpecial,  ///< FIFO or device: known by name only
};

struct TarXattr {
  std::string name;
  std::string value;  ///< any bytes
  bool operator==(const TarXattr&) const = default;
};

/// One member. Names, link texts and values are bytes.
struct TarEntry {
  std::string path;
  TarType type = TarType::kFile;
  std::uint32_t mode = 0644;  ///< permission bits, 07777
  std::int64_t mtime_ns = 0;
  std::uint64_t size = 0;         ///< kFile: length of the file, holes included
  std::string link = {};          ///< kSymlink: its text; kHardLink: path of an earlier member
  bool is_sparse = false;         ///< only `data` is in the stream
  std::vector<Extent> data = {};  ///< sorted, apart; with is_sparse
  std::vector<TarXattr> xattrs = {};
  /// What is before this offset is at the destination already, in the unfinished copy there
  /// (part_file.h); 0 for whole files. With is_sparse.
  std::uint64_t resume_at = 0;
  std::string digest = {};  ///< in an inventory: of an unfinished file's content
  std::uint32_t uid = 0;    ///< owner; readers of copies do not look at it
  std::uint32_t gid = 0;

  /// Bytes of content in the stream.
  std::uint64_t stored_size() const;
};

/// Bounds of what a reader takes; what is longer is kLimit.
inline constexpr std::size_t kMaxTarPath = std::size_t{64} << 10U;
inline constexpr std::size_t kMaxTarHeader = std::size_t{1} << 20U;  // all pax records of a member
inline constexpr std::size_t kMaxTarExtents = 100'000;

/// Cuts `data` down to kMaxTarExtents by taking the smallest holes for data.
void limit_extents(std::vector<Extent>& data);

}  // namespace sbx::archive
