// Pack file: the content of one open file as extents and as a stream of their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/archive/archive.h"
#include "core/base/result.h"

namespace sbx::archive {

/// Where the data of `fd` is, up to `size`, at most kMaxTarExtents pieces. Needs SEEK_DATA; where
/// that is not known, all is data.
std::vector<Extent> data_extents(int fd, std::uint64_t size);
/// What of `extents` lies at or behind `offset`.
std::vector<Extent> extents_from(const std::vector<Extent>& extents, std::uint64_t offset);

/// Reads the bytes of `extents` one after the other. Where the file is shorter than that by now,
/// zeros stand in and is_short() is true.
class ExtentReader {
 public:
  ExtentReader(int fd, std::vector<Extent> extents) : fd_(fd), extents_(std::move(extents)) {}

  Result<std::size_t> read(std::span<std::byte> buffer);
  bool is_short() const { return is_short_; }

 private:
  int fd_;
  std::vector<Extent> extents_;
  std::size_t extent_ = 0;
  std::uint64_t done_ = 0;  // of it
  bool is_short_ = false;
};

}  // namespace sbx::archive
