// Source: the bytes of what is imported, from a file or a pipe, with a look at the first ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/archive/archive_reader.h"
#include "core/base/result.h"

namespace sbx::image {

/// Reads a descriptor in blocks.
class FdBlocks {
 public:
  /// `fd` stays the caller's. `on_read` is called with the bytes that were read or passed over.
  FdBlocks(int fd, std::function<void(std::uint64_t)> on_read);

  /// The next block, valid until the next call; empty at the end. Blocks.
  Result<std::span<const std::byte>> next();
  /// Passes over bytes where the descriptor is a file; 0 where it is not.
  Result<std::uint64_t> skip(std::uint64_t bytes);
  /// To where it was at first. kUnsupported for anything else.
  Status rewind();
  bool is_file() const { return is_file_; }

 private:
  int fd_;
  std::function<void(std::uint64_t)> on_read_;
  bool is_file_ = false;
  std::uint64_t start_ = 0;
  std::uint64_t size_ = 0;
  std::vector<std::byte> buffer_;
};

/// A stream of which the first bytes can be seen before it is read.
class Peekable {
 public:
  explicit Peekable(archive::NextBlock input) : input_(std::move(input)) {}

  /// The first `size` bytes, fewer when there are no more. Only before the first next().
  Result<std::string_view> peek(std::size_t size);
  Result<std::span<const std::byte>> next();
  /// Whether nothing that was seen is still to be read.
  bool is_drained() const { return at_ == head_.size(); }

 private:
  archive::NextBlock input_;
  std::string head_;
  std::size_t at_ = 0;
};

}  // namespace sbx::image
