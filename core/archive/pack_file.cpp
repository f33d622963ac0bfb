// Pack file: see pack_file.h.
#include "core/archive/pack_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/archive/tar_entry.h"

namespace sbx::archive {

std::vector<Extent> data_extents(int fd, std::uint64_t size) {
  std::vector<Extent> extents;
  std::uint64_t at = 0;
  while (at < size) {
    const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // a hole up to the end
    if (data < 0) return {{0, size}};
    const off_t hole = ::lseek(fd, data, SEEK_HOLE);
    if (hole < 0) return {{0, size}};
    const auto from = static_cast<std::uint64_t>(data);
    const std::uint64_t to = std::min(static_cast<std::uint64_t>(hole), size);
    // Somebody may be writing while we look.
    if (from >= size || to <= from) break;
    extents.push_back({from, to - from});
    if (extents.size() > 2 * kMaxTarExtents) limit_extents(extents);
    at = to;
  }
  limit_extents(extents);
  return extents;
}

std::vector<Extent> extents_from(const std::vector<Extent>& extents, std::uint64_t offset) {
  std::vector<Extent> rest;
  for (const Extent& extent : extents) {
    const std::uint64_t end = extent.offset + extent.length;
    if (end <= offset) continue;
    const std::uint64_t from = std::max(extent.offset, offset);
    rest.push_back({from, end - from});
  }
  return rest;
}

Result<std::size_t> ExtentReader::read(std::span<std::byte> buffer) {
  while (extent_ < extents_.size() && done_ == extents_[extent_].length) {
    ++extent_;
    done_ = 0;
  }
  if (extent_ == extents_.size() || buffer.empty()) return std::size_t{0};
  const Extent& extent = extents_[extent_];
  const auto want =
      static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), extent.length - done_));
  ssize_t got = 0;
  if (!is_short_) {
    do {
      got = ::pread(fd_, buffer.data(), want, static_cast<off_t>(extent.offset + done_));
    } while (got < 0 && errno == EINTR);
    if (got < 0) return sys_error("read a file");
  }
  if (got == 0) {
    is_short_ = true;
    std::memset(buffer.data(), 0, want);
    got = static_cast<ssize_t>(want);
  }
  done_ += static_cast<std::uint64_t>(got);
  return static_cast<std::size_t>(got);
}

}  // namespace sbx::archive
