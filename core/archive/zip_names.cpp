// Zip names: walks the central directory of a zip file (APPNOTE.TXT 4.3) and patches flags.
#include "core/archive/zip_names.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::archive {

namespace {

constexpr std::uint32_t kNoValue32 = 0xffffffff;  // the value is in the zip64 field
constexpr std::uint64_t kUtf8Flag = 0x0800;

/// Little-endian number of `size` bytes at `at`; the caller has checked the bounds.
std::uint64_t number(std::string_view data, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i > 0; --i) {
    value = (value << 8U) | static_cast<unsigned char>(data[at + i - 1]);
  }
  return value;
}

Error broken(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("zip file: ", what));
}

using Block = std::vector<char>;

std::string_view view(const Block& block) {
  return {block.data(), block.size()};
}

Result<Block> read_at(int fd, std::uint64_t offset, std::size_t size) {
  Block data(size);
  std::size_t have = 0;
  while (have < size) {
    const ssize_t n =
        ::pread(fd, data.data() + have, size - have, static_cast<off_t>(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys_error("read back the zip file");
    if (n == 0) return broken("ends early");
    have += static_cast<std::size_t>(n);
  }
  return data;
}

Status set_flag(int fd, std::uint64_t at, std::uint64_t flags) {
  flags |= kUtf8Flag;
  const std::string bytes{static_cast<char>(flags & 0xffU),
                          static_cast<char>((flags >> 8U) & 0xffU)};
  ssize_t n = 0;
  do {
    n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
  } while (n < 0 && errno == EINTR);
  if (n < 0) return sys_error("mark names in the zip file");
  return {};
}

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

Result<Directory> find_directory(int fd) {
  constexpr std::size_t kEnd = 22;
  constexpr std::size_t kLocator = 20;
  constexpr std::size_t kEnd64 = 56;
  SBX_ASSIGN(const struct stat st, sys::fstat(fd));
  const auto file_size = static_cast<std::uint64_t>(st.st_size);
  if (file_size < kEnd) return broken("too short");
  SBX_ASSIGN(const Block end_block, read_at(fd, file_size - kEnd, kEnd));
  const std::string_view end = view(end_block);
  if (number(end, 0, 4) != 0x06054b50) return broken("no end record");
  Directory found{.offset = number(end, 16, 4), .size = number(end, 12, 4)};
  if (found.offset != kNoValue32 && found.size != kNoValue32) return found;
  if (file_size < kEnd + kLocator) return broken("no zip64 locator");
  SBX_ASSIGN(const Block locator, read_at(fd, file_size - kEnd - kLocator, kLocator));
  if (number(view(locator), 0, 4) != 0x07064b50) return broken("no zip64 locator");
  SBX_ASSIGN(const Block end64, read_at(fd, number(view(locator), 8, 8), kEnd64));
  if (number(view(end64), 0, 4) != 0x06064b50) return broken("no zip64 end record");
  return Directory{.offset = number(view(end64), 48, 8), .size = number(view(end64), 40, 8)};
}

/// Offset of the local header: from the fixed field, or from the zip64 extra field, which holds
/// only those of (size, compressed size, offset) that did not fit.
Result<std::uint64_t> local_offset(std::string_view fixed, std::string_view extra) {
  const std::uint64_t offset = number(fixed, 42, 4);
  if (offset != kNoValue32) return offset;
  std::size_t skip = 0;
  if (number(fixed, 24, 4) == kNoValue32) skip += 8;
  if (number(fixed, 20, 4) == kNoValue32) skip += 8;
  while (extra.size() >= 4) {
    const std::size_t size = number(extra, 2, 2);
    if (extra.size() < 4 + size) break;
    if (number(extra, 0, 2) == 1 && size >= skip + 8) return number(extra, 4 + skip, 8);
    extra.remove_prefix(4 + size);
  }
  return broken("no zip64 offset");
}

}  // namespace

Status mark_utf8_names(int fd) {
  constexpr std::size_t kFixed = 46;
  constexpr std::size_t kFlagsInEntry = 8;
  constexpr std::size_t kFlagsInLocal = 6;
  SBX_ASSIGN(const Directory directory, find_directory(fd));
  const std::uint64_t end = directory.offset + directory.size;
  for (std::uint64_t at = directory.offset; at < end;) {
    SBX_ASSIGN(const Block fixed_block, read_at(fd, at, kFixed));
    const std::string_view fixed = view(fixed_block);
    if (number(fixed, 0, 4) != 0x02014b50) return broken("bad directory entry");
    const std::size_t name_size = number(fixed, 28, 2);
    const std::size_t extra_size = number(fixed, 30, 2);
    SBX_ASSIGN(const Block rest, read_at(fd, at + kFixed, name_size + extra_size));
    const std::string_view name = view(rest).substr(0, name_size);
    const bool is_ascii =
        std::all_of(name.begin(), name.end(), [](char c) { return (c & '\x80') == 0; });
    if (!is_ascii && text::is_utf8(name)) {
      const std::uint64_t flags = number(fixed, kFlagsInEntry, 2);
      SBX_ASSIGN(const std::uint64_t local, local_offset(fixed, view(rest).substr(name_size)));
      SBX_TRY(set_flag(fd, at + kFlagsInEntry, flags));
      SBX_TRY(set_flag(fd, local + kFlagsInLocal, flags));
    }
    at += kFixed + name_size + extra_size + number(fixed, 32, 2);
  }
  return {};
}

}  // namespace sbx::archive
