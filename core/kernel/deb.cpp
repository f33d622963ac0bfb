// Deb: see deb.h.
#include "core/kernel/deb.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace sbx::kernel {

namespace {

constexpr std::size_t kNameSize = 16;
constexpr std::size_t kSizeAt = 48;
constexpr std::size_t kSizeSize = 10;
constexpr std::size_t kEndAt = 58;
constexpr std::string_view kHeaderEnd = "`\n";
constexpr std::size_t kBlock = std::size_t{256} << 10U;
constexpr std::size_t kMagicSize = 6;
constexpr std::size_t kMostMembers = 16;  // of the ar archive; a package has three
constexpr std::uint64_t kMostFiles = 200'000;
constexpr std::uint64_t kMostPlain = std::uint64_t{16} << 30U;
constexpr std::size_t kLongestVersion = 64;

using Span = std::span<const std::byte>;

/// Reads until `out` is full or the file ends; how much it was.
Result<std::size_t> fill(int fd, std::span<char> out) {
  std::size_t size = 0;
  while (size < out.size()) {
    SBX_ASSIGN(const std::size_t got, sys::read(fd, out.data() + size, out.size() - size));
    if (got == 0) break;
    size += got;
  }
  return size;
}

Status skip(int fd, std::uint64_t size) {
  std::vector<char> block(kBlock);
  while (size > 0) {
    const std::size_t most = std::min<std::uint64_t>(size, block.size());
    SBX_ASSIGN(const std::size_t got, fill(fd, std::span(block).first(most)));
    if (got < most) return Error(Errc::kProtocol, "the package is cut");
    size -= got;
  }
  return {};
}

enum class Part : std::uint8_t { kOther, kVersion, kData };

Part part_of(std::string_view name) {
  if (name == "debian-binary") return Part::kVersion;
  return name == "data.tar" || name.starts_with("data.tar.") ? Part::kData : Part::kOther;
}

/// The member "debian-binary".
Status check_version(int fd, std::uint64_t size) {
  std::array<char, kLongestVersion> version{};
  if (size > version.size()) return Error(Errc::kProtocol, "it is no Debian package");
  SBX_ASSIGN(const std::size_t got, fill(fd, std::span(version).first(size)));
  if (std::string_view(version.data(), got).starts_with("2.")) return skip(fd, size % 2);
  return Error(Errc::kUnsupported, "the package has another format than 2");
}

std::string_view trimmed(std::string_view text) {
  while (text.ends_with(' ')) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

Result<ArMember> parse_ar_header(std::string_view header) {
  const Error broken(Errc::kProtocol, "the package is no ar archive as deb(5) has it");
  if (header.size() != kArHeaderSize || header.substr(kEndAt) != kHeaderEnd) return broken;
  ArMember out;
  std::string_view name = trimmed(header.substr(0, kNameSize));
  if (name.ends_with('/')) name.remove_suffix(1);
  out.name = name;
  const auto size = parse_count(trimmed(header.substr(kSizeAt, kSizeSize)));
  if (!size.ok()) return broken;
  out.size = size.value();
  return out;
}

struct DebReader::Impl {
  int fd = -1;
  std::uint64_t left = 0;  // of data.tar
  std::vector<char> buffer = std::vector<char>(kBlock);
  std::size_t ahead = 0;  // bytes of it that were read to look at
  std::optional<archive::Decompressor> plain;
  std::optional<archive::ArchiveReader> tar;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;

  /// The next stored bytes of data.tar.
  Result<Span> stored() {
    if (ahead > 0) {
      const std::size_t size = std::exchange(ahead, 0);
      return std::as_bytes(std::span(buffer).first(size));
    }
    const std::size_t most = std::min<std::uint64_t>(left, buffer.size());
    if (most == 0) return Span();
    SBX_ASSIGN(const std::size_t got, sys::read(fd, buffer.data(), most));
    if (got == 0) return Error(Errc::kProtocol, "the package is cut");
    left -= got;
    return std::as_bytes(std::span(buffer).first(got));
  }

  Result<Span> unpacked() {
    auto block = plain.has_value() ? plain->next() : stored();
    if (!block.ok()) return block;
    bytes += block.value().size();
    if (bytes > kMostPlain) return Error(Errc::kLimit, "the package has more than 16G of files");
    return block;
  }

  Status begin(std::uint64_t size) {
    const std::size_t most = std::min<std::uint64_t>(size, kMagicSize);
    SBX_ASSIGN(ahead, fill(fd, std::span(buffer).first(most)));
    if (ahead < most) return Error(Errc::kProtocol, "the package is cut");
    left = size - ahead;
    const auto how = archive::compression_of(std::string_view(buffer.data(), ahead));
    if (how != archive::Compression::kNone) {
      SBX_ASSIGN(plain, archive::Decompressor::open(how, [this] { return stored(); }));
    }
    SBX_ASSIGN(tar, archive::ArchiveReader::open([this] { return unpacked(); }));
    return {};
  }
};

DebReader::DebReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DebReader::~DebReader() = default;
DebReader::DebReader(DebReader&& other) noexcept = default;
DebReader& DebReader::operator=(DebReader&& other) noexcept = default;

Result<DebReader> DebReader::open(int fd) {
  const Error broken(Errc::kProtocol, "it is no Debian package");
  std::array<char, kArHeaderSize> header{};
  SBX_ASSIGN(std::size_t got, fill(fd, std::span(header).first(kArMagic.size())));
  if (std::string_view(header.data(), got) != kArMagic) return broken;
  for (std::size_t i = 0; i < kMostMembers; ++i) {
    SBX_ASSIGN(got, fill(fd, header));
    if (got == 0) break;
    SBX_ASSIGN(const ArMember member, parse_ar_header(std::string_view(header.data(), got)));
    const Part part = part_of(member.name);
    if ((i == 0) != (part == Part::kVersion)) return broken;
    if (part == Part::kVersion) {
      SBX_TRY(check_version(fd, member.size));
      continue;
    }
    if (part == Part::kData) {
      auto impl = std::make_unique<Impl>();
      impl->fd = fd;
      SBX_TRY(impl->begin(member.size));
      return DebReader(std::move(impl));
    }
    SBX_TRY(skip(fd, member.size + member.size % 2));
  }
  return Error(Errc::kProtocol, "the package has no files in it: data.tar is missing");
}

Result<bool> DebReader::next(archive::Member& member) {
  if (++impl_->files > kMostFiles) {
    return Error(Errc::kLimit, text::cat("the package has more than ", kMostFiles, " files"));
  }
  return impl_->tar->next(member);
}

Result<archive::MemberData> DebReader::data() {
  return impl_->tar->data();
}

}  // namespace sbx::kernel
