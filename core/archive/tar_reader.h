// Tar reader: reads a tar stream of any common make (V7, ustar, pax, GNU) from a descriptor, taking
// nothing in it on trust.
//
// It says what the stream says; whether a path may be used is for who writes files (unpack.h).
// Sizes are checked before memory is allocated. Compressed streams are refused with the fix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/archive/tar_entry.h"
#include "core/archive/tar_format.h"
#include "core/base/result.h"

namespace sbx::archive {

class TarReader {
 public:
  /// Reads from `fd`, which stays the caller's and is blocking. Every call may block.
  explicit TarReader(int fd);

  /// The next member; nullopt after the end mark. What the former one left unread is skipped.
  /// kProtocol when the stream is malformed or ends without its mark, kLimit when a header is
  /// longer than tar_entry.h allows.
  Result<std::optional<TarEntry>> next();
  /// The next stored bytes of that member, 0 after the last. Never more than fits.
  Result<std::size_t> read(std::span<std::byte> buffer);
  /// Reads and drops what comes behind the end mark, so that the writer is not cut off.
  void drain();

  /// What add_total() of the writer said; 0 when nothing was said.
  std::uint64_t total() const { return total_; }

 private:
  struct Extended;  // what stood in headers before the member's own

  Status fill(std::span<std::byte> out);
  Result<std::size_t> some(std::span<std::byte> out);
  Status skip(std::uint64_t size);
  Result<std::string> body(std::uint64_t size);
  Status apply(std::string_view key, std::string_view value, Extended& extended);
  Status read_pax(std::uint64_t size, Extended& extended);
  Status read_global(std::uint64_t size);
  Status read_extension(char type, std::uint64_t size, Extended& extended);
  Result<TarEntry> member(const tar::Header& header, std::uint64_t size, Extended& extended);
  Status read_holes(const tar::Header& header, const Extended& extended, TarEntry& entry);
  Status read_sparse_map(TarEntry& entry);
  Status read_old_sparse(const char* header, TarEntry& entry);
  Result<std::uint64_t> map_line();

  int fd_;
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  std::uint64_t left_ = 0;     // stored bytes of the member
  std::uint64_t padding_ = 0;  // behind them
  std::uint64_t total_ = 0;
  bool is_first_ = true;
  bool is_done_ = false;
};

}  // namespace sbx::archive
