// Tar reader: see tar_reader.h.
#include "core/archive/tar_reader.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/archive/transfer.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::archive {

namespace {

using tar::kBlock;

constexpr std::size_t kBuffer = std::size_t{256} << 10U;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::int64_t kMaxSeconds = INT64_MAX / kNsPerSecond - 1;
constexpr std::uint64_t kMaxSize = INT64_MAX;

Error malformed(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("malformed tar stream: ", what));
}

template <std::size_t N>
std::string_view view(const std::array<char, N>& field) {
  return {field.data(), N};
}

/// What a stream that is no tar seems to be.
Error no_tar(std::string_view head) {
  Error error = malformed("its first block is no tar header");
  std::string_view tool;
  if (head.starts_with("\x1f\x8b")) tool = "gzip -dc";
  if (head.starts_with("\x28\xb5\x2f\xfd")) tool = "zstd -dc";
  if (head.starts_with("\xfd"
                       "7zXZ")) {
    tool = "xz -dc";
  }
  if (head.starts_with("BZh")) tool = "bzip2 -dc";
  if (tool.empty()) return error;
  return std::move(error).with_hint(text::cat("it is compressed: put `", tool, " |` before it"));
}

/// The extents are sorted, apart and within the file.
Status check_extents(const TarEntry& entry) {
  std::uint64_t at = 0;
  for (const Extent& extent : entry.data) {
    if (extent.offset < at || extent.offset > entry.size ||
        extent.length > entry.size - extent.offset) {
      return malformed("a map of holes that makes no sense");
    }
    at = extent.offset + extent.length;
  }
  return {};
}

Result<TarType> type_of(char flag, std::string_view path) {
  switch (flag) {
    case '0':
    case '\0':
    case '7':
    case 'S':
      // A V7 tar knows directories by their names alone.
      return flag != 'S' && path.ends_with('/') ? TarType::kDirectory : TarType::kFile;
    case '1':
      return TarType::kHardLink;
    case '2':
      return TarType::kSymlink;
    case '3':
    case '4':
    case '6':
      return TarType::kSpecial;
    case '5':
      return TarType::kDirectory;
    default:
      return malformed("a member of unknown kind");
  }
}

/// ustar's prefix and name; GNU tar uses the prefix field for other things.
std::string header_path(const tar::Header& header) {
  const std::string_view name = tar::text_field(view(header.name));
  const std::string_view prefix = tar::text_field(view(header.prefix));
  const bool is_ustar = view(header.magic) == std::string_view("ustar\00000", 8);
  if (!is_ustar || prefix.empty()) return std::string(name);
  return text::cat(prefix, '/', name);
}

}  // namespace

struct TarReader::Extended {
  std::optional<std::string> path;
  std::optional<std::string> sparse_path;
  std::optional<std::string> link;
  std::optional<std::uint64_t> size;
  std::optional<std::uint64_t> real_size;
  std::optional<std::int64_t> mtime_ns;
  bool is_sparse_1_0 = false;
  bool is_other_sparse = false;
  std::uint64_t resume_at = 0;
  std::string digest;
  std::vector<TarXattr> xattrs;
  std::size_t bytes = 0;  // of all headers so far
};

TarReader::TarReader(int fd) : fd_(fd), buffer_(kBuffer) {}

Result<std::size_t> TarReader::some(std::span<std::byte> out) {
  if (at_ == end_ && out.size() >= buffer_.size()) return sys::read(fd_, out);
  if (at_ == end_) {
    SBX_ASSIGN(end_, sys::read(fd_, buffer_));
    at_ = 0;
  }
  const std::size_t size = std::min(out.size(), end_ - at_);
  std::memcpy(out.data(), buffer_.data() + at_, size);
  at_ += size;
  return size;
}

Status TarReader::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    SBX_ASSIGN(const std::size_t size, some(out));
    if (size == 0) return Error(Errc::kProtocol, std::string(kStreamEndedEarly));
    out = out.subspan(size);
  }
  return {};
}

Status TarReader::skip(std::uint64_t size) {
  std::array<std::byte, 4096> dropped{};
  while (size > 0) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(size, dropped.size()));
    SBX_TRY(fill(std::span(dropped).first(want)));
    size -= want;
  }
  return {};
}

void TarReader::drain() {
  std::array<std::byte, 4096> dropped{};
  for (Result<std::size_t> got = some(dropped); got.ok() && got.value() > 0;) {
    got = some(dropped);
  }
}

Result<std::string> TarReader::body(std::uint64_t size) {
  if (size > kMaxTarHeader) return Error(Errc::kLimit, "a header of the tar stream is too long");
  std::string out(size, '\0');
  SBX_TRY(fill(std::as_writable_bytes(std::span(out.data(), out.size()))));
  SBX_TRY(skip(tar::padding(size)));
  return out;
}

Status TarReader::apply(std::string_view key, std::string_view value, Extended& extended) {
  if (key == "path") {
    extended.path = value;
  } else if (key == "GNU.sparse.name") {
    extended.sparse_path = value;
  } else if (key == "linkpath") {
    extended.link = value;
  } else if (key == "size") {
    SBX_ASSIGN(extended.size, tar::decimal(value));
  } else if (key == "GNU.sparse.realsize") {
    SBX_ASSIGN(extended.real_size, tar::decimal(value));
  } else if (key == "GNU.sparse.major") {
    extended.is_sparse_1_0 = value == "1";
    extended.is_other_sparse = value != "1";
  } else if (key == "GNU.sparse.map" || key == "GNU.sparse.numblocks") {
    extended.is_other_sparse = true;
  } else if (key == "mtime") {
    SBX_ASSIGN(extended.mtime_ns, tar::time_ns(value));
  } else if (key == tar::kResumeKey) {
    SBX_ASSIGN(extended.resume_at, tar::decimal(value));
  } else if (key == tar::kDigestKey) {
    extended.digest = value;
  } else if (key.starts_with(tar::kXattrPrefix)) {
    const std::string_view name = key.substr(tar::kXattrPrefix.size());
    extended.xattrs.push_back({std::string(name), std::string(value)});
  }
  return {};
}

Status TarReader::read_pax(std::uint64_t size, Extended& extended) {
  SBX_ASSIGN(const std::string text, body(size));
  SBX_ASSIGN(const std::vector<tar::Record> records, tar::records(text));
  for (const auto& [key, value] : records) {
    SBX_TRY(apply(key, value, extended));
  }
  return {};
}

/// Only our own total counts; nothing that would hold for every member is taken.
Status TarReader::read_global(std::uint64_t size) {
  SBX_ASSIGN(const std::string text, body(size));
  SBX_ASSIGN(const std::vector<tar::Record> records, tar::records(text));
  for (const auto& [key, value] : records) {
    if (key != tar::kTotalKey) continue;
    SBX_ASSIGN(total_, tar::decimal(value));
  }
  return {};
}

/// One decimal number and its newline, out of the member's content.
Result<std::uint64_t> TarReader::map_line() {
  std::string digits;
  constexpr std::size_t kMaxDigits = 20;
  while (digits.size() <= kMaxDigits) {
    std::byte c{};
    if (left_ == 0) return malformed("a map of holes is cut short");
    SBX_TRY(fill(std::span(&c, 1)));
    --left_;
    if (static_cast<char>(c) == '\n') return tar::decimal(digits);
    digits += static_cast<char>(c);
  }
  return malformed("a number in a map of holes is too long");
}

/// The map of GNU tar's form 1.0, which stands before the content, in whole blocks.
Status TarReader::read_sparse_map(TarEntry& entry) {
  const std::uint64_t whole = left_;
  SBX_ASSIGN(const std::uint64_t count, map_line());
  if (count > kMaxTarExtents + 1) {
    return Error(Errc::kLimit, text::cat("too many holes in ", entry.path));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    Extent extent;
    SBX_ASSIGN(extent.offset, map_line());
    SBX_ASSIGN(extent.length, map_line());
    if (extent.length > 0) entry.data.push_back(extent);
  }
  const std::uint64_t rest = tar::padding(whole - left_);
  if (rest > left_) return malformed("a map of holes is cut short");
  SBX_TRY(skip(rest));
  left_ -= rest;
  return {};
}

/// The map of old GNU tar: four pairs in the header, 21 in each block behind it.
Status TarReader::read_old_sparse(const char* header, TarEntry& entry) {
  constexpr std::size_t kPair = 24;
  constexpr std::size_t kInHeader = 386;
  constexpr std::size_t kHeaderMore = 482;
  constexpr std::size_t kRealSize = 483;
  constexpr std::size_t kBlockMore = 504;
  SBX_ASSIGN(const std::int64_t size, tar::number({header + kRealSize, 12}));
  entry.size = static_cast<std::uint64_t>(size);
  const auto take = [&entry](const char* pairs, std::size_t count) -> Status {
    for (std::size_t i = 0; i < count; ++i) {
      const char* pair = pairs + i * kPair;
      if (*pair == '\0') return {};
      SBX_ASSIGN(const std::int64_t offset, tar::number({pair, 12}));
      SBX_ASSIGN(const std::int64_t length, tar::number({pair + 12, 12}));
      if (offset < 0 || length < 0) return malformed("a map of holes that makes no sense");
      if (length == 0) continue;
      entry.data.push_back(
          {static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(length)});
    }
    return {};
  };
  SBX_TRY(take(header + kInHeader, 4));
  bool has_more = header[kHeaderMore] != '\0';
  while (has_more) {
    if (entry.data.size() > kMaxTarExtents) {
      return Error(Errc::kLimit, text::cat("too many holes in ", entry.path));
    }
    std::array<char, kBlock> block{};
    SBX_TRY(fill(std::as_writable_bytes(std::span(block))));
    SBX_TRY(take(block.data(), 21));
    has_more = block[kBlockMore] != '\0';
  }
  return {};
}

Result<std::optional<TarEntry>> TarReader::next() {
  SBX_TRY(skip(std::exchange(left_, 0)));
  SBX_TRY(skip(std::exchange(padding_, 0)));
  Extended extended;
  while (!is_done_) {
    tar::Header header{};
    SBX_TRY(fill(std::as_writable_bytes(std::span(&header, 1))));
    if (tar::is_zero(header)) {
      is_done_ = true;
      break;
    }
    if (!tar::is_checksum_right(header)) {
      const std::string_view head(reinterpret_cast<const char*>(&header), sizeof header);
      return is_first_ ? no_tar(head) : malformed("a header has the wrong checksum");
    }
    is_first_ = false;
    SBX_ASSIGN(const std::int64_t said, tar::number(view(header.size)));
    if (said < 0) return malformed("a negative size");
    const auto size = static_cast<std::uint64_t>(said);
    if (std::string_view("xgLKV").find(header.type) == std::string_view::npos) {
      SBX_ASSIGN(TarEntry entry, member(header, size, extended));
      return std::optional(std::move(entry));
    }
    extended.bytes += size + kBlock;
    if (extended.bytes > kMaxTarHeader) {
      return Error(Errc::kLimit, "a header of the tar stream is too long");
    }
    SBX_TRY(read_extension(header.type, size, extended));
  }
  return std::optional<TarEntry>();
}

Status TarReader::read_extension(char type, std::uint64_t size, Extended& extended) {
  if (type == 'x') return read_pax(size, extended);
  if (type == 'g') return read_global(size);
  SBX_ASSIGN(const std::string text, body(size));
  if (type == 'L') extended.path = tar::text_field(text);
  if (type == 'K') extended.link = tar::text_field(text);
  return {};  // 'V' is the name of a volume
}

Result<TarEntry> TarReader::member(const tar::Header& header,
                                   std::uint64_t size,
                                   Extended& extended) {
  TarEntry entry;
  entry.path = extended.sparse_path.has_value() ? std::move(*extended.sparse_path)
               : extended.path.has_value()      ? std::move(*extended.path)
                                                : header_path(header);
  if (entry.path.size() > kMaxTarPath) return Error(Errc::kLimit, "a path is too long");
  SBX_ASSIGN(entry.type, type_of(header.type, entry.path));
  entry.link = extended.link.has_value() ? std::move(*extended.link)
                                         : std::string(tar::text_field(view(header.link)));
  SBX_ASSIGN(const std::int64_t mode, tar::number(view(header.mode)));
  entry.mode = static_cast<std::uint32_t>(mode) & 07777U;
  SBX_ASSIGN(const std::int64_t seconds, tar::number(view(header.mtime)));
  entry.mtime_ns = std::clamp(seconds, -kMaxSeconds, kMaxSeconds) * kNsPerSecond;
  entry.mtime_ns = extended.mtime_ns.value_or(entry.mtime_ns);
  entry.xattrs = std::move(extended.xattrs);
  entry.digest = std::move(extended.digest);
  entry.resume_at = extended.resume_at;
  if (entry.type != TarType::kFile) {
    // A hard link's size is that of its file in some tars, but no content follows.
    left_ = entry.type == TarType::kHardLink || entry.type == TarType::kSymlink
                ? 0
                : extended.size.value_or(size);
    if (left_ > kMaxSize - kBlock) return malformed("a size is too large");
    padding_ = tar::padding(left_);
    return entry;
  }
  left_ = extended.size.value_or(size);
  if (left_ > kMaxSize - kBlock) return malformed("a size is too large");
  padding_ = tar::padding(left_);
  entry.size = left_;
  SBX_TRY(read_holes(header, extended, entry));
  return entry;
}

Status TarReader::read_holes(const tar::Header& header, const Extended& extended, TarEntry& entry) {
  if (extended.is_other_sparse) {
    return Error(Errc::kUnsupported,
                 text::cat(entry.path, ": an old form of holes in a tar stream"))
        .with_hint("use GNU tar's --sparse-version=1.0");
  }
  entry.is_sparse = extended.is_sparse_1_0 || header.type == 'S';
  if (!entry.is_sparse) return {};
  if (extended.is_sparse_1_0) {
    entry.size = extended.real_size.value_or(0);
    SBX_TRY(read_sparse_map(entry));
  } else {
    SBX_TRY(read_old_sparse(reinterpret_cast<const char*>(&header), entry));
  }
  if (entry.size > kMaxSize) return malformed("a size is too large");
  SBX_TRY(check_extents(entry));
  if (entry.stored_size() != left_) {
    return malformed("a map of holes that does not fit its content");
  }
  return {};
}

Result<std::size_t> TarReader::read(std::span<std::byte> buffer) {
  if (left_ == 0 || buffer.empty()) return std::size_t{0};
  const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(left_, buffer.size()));
  SBX_ASSIGN(const std::size_t size, some(buffer.first(want)));
  if (size == 0) return Error(Errc::kProtocol, std::string(kStreamEndedEarly));
  left_ -= size;
  return size;
}

}  // namespace sbx::archive
