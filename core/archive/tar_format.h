// Tar format: the header block and the pax records of a tar stream (POSIX.1-2017 pax, GNU tar's
// manual "Basic Tar Format"), pure. Shared by the reader and the writer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/archive/tar_entry.h"
#include "core/base/result.h"

namespace sbx::archive::tar {

inline constexpr std::size_t kBlock = 512;

/// The fields of a header block; offsets and widths are those of struct posix_header.
struct Header {
  std::array<char, 100> name;
  std::array<char, 8> mode;
  std::array<char, 8> uid;
  std::array<char, 8> gid;
  std::array<char, 12> size;
  std::array<char, 12> mtime;
  std::array<char, 8> checksum;
  char type;
  std::array<char, 100> link;
  std::array<char, 8> magic;  // "ustar\0" "00", or "ustar  \0" of GNU tar
  std::array<char, 32> user;
  std::array<char, 32> group;
  std::array<char, 8> major;
  std::array<char, 8> minor;
  std::array<char, 155> prefix;
  std::array<char, 12> padding;
};
static_assert(sizeof(Header) == kBlock);

/// A numeric field: octal digits, or base 256 where the first bit is set. Negative only in base
/// 256.
Result<std::int64_t> number(std::string_view field);
/// Octal digits and a final NUL; false when it does not fit.
bool set_number(std::span<char> field, std::uint64_t value);
/// Up to the first NUL.
std::string_view text_field(std::string_view field);

std::uint64_t checksum(const Header& header);
/// Whether the block says the right sum of itself (unsigned, or signed as old tars).
bool is_checksum_right(const Header& header);
void set_checksum(Header& header);
bool is_zero(const Header& header);

/// "LENGTH KEY=VALUE\n", whose length counts itself.
void add_record(std::string& out, std::string_view key, std::string_view value);

using Record = std::pair<std::string_view, std::string_view>;
/// The records of a pax header; kProtocol when its text is malformed. Views into `body`.
Result<std::vector<Record>> records(std::string_view body);

/// "12.000000345" (any sign, at most nine decimals count) to nanoseconds and back.
Result<std::int64_t> time_ns(std::string_view value);
std::string time_text(std::int64_t ns);
/// Decimal digits only; kProtocol otherwise or above 2^63-1.
Result<std::uint64_t> decimal(std::string_view value);

/// The next free place up to a whole block.
constexpr std::uint64_t padding(std::uint64_t size) {
  return (kBlock - size % kBlock) % kBlock;
}

// Records of our own; other tars ignore them.
inline constexpr std::string_view kTotalKey = "SBX.total";
inline constexpr std::string_view kResumeKey = "SBX.resume";
inline constexpr std::string_view kDigestKey = "SBX.digest";
inline constexpr std::string_view kXattrPrefix = "SCHILY.xattr.";

}  // namespace sbx::archive::tar
