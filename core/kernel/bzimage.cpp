// Bzimage: see bzimage.h.
#include "core/kernel/bzimage.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "core/archive/archive_reader.h"
#include "core/base/text.h"

namespace sbx::kernel {

namespace {

constexpr std::size_t kSector = 512;
constexpr std::size_t kSetupSectors = 0x1f1;
constexpr std::size_t kBootFlag = 0x1fe;
constexpr std::size_t kMagicAt = 0x202;
constexpr std::size_t kVersionAt = 0x206;
constexpr std::size_t kReleaseAt = 0x20e;
constexpr std::size_t kPayloadOffset = 0x248;
constexpr std::size_t kPayloadLength = 0x24c;
constexpr std::size_t kHeaderEnd = 0x250;
constexpr std::uint16_t kBootMagic = 0xaa55;
constexpr std::string_view kMagic = "HdrS";
constexpr std::uint16_t kPayloadSince = 0x0208;
constexpr std::size_t kLongestRelease = 100;
constexpr std::size_t kBlock = std::size_t{256} << 10U;

/// A number of the header, which is known to be there.
template <typename T>
T number_at(std::string_view bytes, std::size_t offset) {
  T value = 0;
  std::memcpy(&value, bytes.substr(offset, sizeof(T)).data(), sizeof(T));
  return value;
}

bool is_release_char(char c) {
  constexpr std::string_view kAlso = "._+~-";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kAlso.find(c) != std::string_view::npos;
}

std::string first_word(std::string_view text) {
  text = text.substr(0, kLongestRelease);
  const auto end = std::ranges::find_if_not(text, is_release_char);
  return std::string(text.substr(0, static_cast<std::size_t>(end - text.begin())));
}

/// What the build appends behind all but gzip, which has it already: the size of what is packed.
Result<std::uint32_t> packed_size(std::string_view payload) {
  if (payload.size() < sizeof(std::uint32_t)) {
    return Error(Errc::kProtocol, "the packed kernel is cut");
  }
  return number_at<std::uint32_t>(payload, payload.size() - sizeof(std::uint32_t));
}

Error unknown_packing(std::string_view payload) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kKnown{
      {{std::string_view("\x5d\0\0", 3), "lzma"}, {"\x89LZO", "lzo"}}};
  for (const auto& [magic, name] : kKnown) {
    if (!payload.starts_with(magic)) continue;
    return Error(Errc::kUnsupported, text::cat("the kernel is packed with ", name))
        .with_hint("give its vmlinux, or one that is packed with xz, zstd, lz4, gzip or bzip2");
  }
  return Error(Errc::kProtocol, "the packed kernel in it has no known format");
}

}  // namespace

bool is_bzimage(std::string_view head) {
  return head.size() >= kHeaderEnd && number_at<std::uint16_t>(head, kBootFlag) == kBootMagic &&
         head.substr(kMagicAt, kMagic.size()) == kMagic;
}

Result<BzImage> read_bzimage(std::string_view image) {
  constexpr std::uint64_t kOldSectors = 4;  // what 0 means
  if (!is_bzimage(image)) return Error(Errc::kProtocol, "it is no bzImage");
  if (number_at<std::uint16_t>(image, kVersionAt) < kPayloadSince) {
    return Error(Errc::kUnsupported, "the bzImage is too old to say where the kernel in it is");
  }
  const std::uint64_t sectors = number_at<std::uint8_t>(image, kSetupSectors);
  const std::uint64_t offset = ((sectors == 0 ? kOldSectors : sectors) + 1) * kSector +
                               number_at<std::uint32_t>(image, kPayloadOffset);
  const std::uint64_t size = number_at<std::uint32_t>(image, kPayloadLength);
  if (offset > image.size() || size > image.size() - offset) {
    return Error(Errc::kProtocol, "the bzImage is cut: its packed kernel is not all there");
  }
  BzImage out;
  out.payload = image.substr(offset, size);
  const std::uint64_t release =
      std::uint64_t{kSector} + number_at<std::uint16_t>(image, kReleaseAt);
  if (release != kSector && release < image.size()) {
    out.release = first_word(image.substr(release));
  }
  return out;
}

Result<std::string> unpack_payload(std::string_view payload, Bytes most) {
  constexpr std::string_view kOldLz4 = "\x02\x21\x4c\x18";  // the frames that kernels use
  auto how = archive::compression_of(payload);
  if (payload.starts_with(kOldLz4)) how = archive::Compression::kLz4;
  if (how == archive::Compression::kNone) return unknown_packing(payload);
  SBX_ASSIGN(const std::uint32_t size, packed_size(payload));
  if (size > most.v) {
    return Error(Errc::kLimit, text::cat("the kernel has more than ", to_string(most)));
  }
  if (how != archive::Compression::kGzip) payload.remove_suffix(sizeof(size));
  auto feed = [rest = payload]() mutable -> Result<std::span<const std::byte>> {
    const std::string_view now = rest.substr(0, kBlock);
    rest.remove_prefix(now.size());
    return std::as_bytes(std::span(now.data(), now.size()));
  };
  SBX_ASSIGN(archive::Decompressor reader, archive::Decompressor::open(how, feed));
  std::string out;
  while (true) {
    SBX_ASSIGN(const auto block, reader.next());
    if (block.empty()) break;
    if (block.size() > size - out.size()) {
      return Error(Errc::kProtocol, "the packed kernel is longer than it says");
    }
    // Grows with what comes: the size may be a lie.
    out.append(reinterpret_cast<const char*>(block.data()), block.size());
  }
  if (out.size() != size) {
    return Error(Errc::kProtocol, "the packed kernel is shorter than it says");
  }
  return out;
}

std::string release_of_vmlinux(std::string_view file) {
  constexpr std::string_view kBefore = "Linux version ";
  for (std::size_t at = file.find(kBefore); at != std::string_view::npos;
       at = file.find(kBefore, at + 1)) {
    const std::string word = first_word(file.substr(at + kBefore.size()));
    if (!word.empty() && word.front() >= '0' && word.front() <= '9') return word;
  }
  return {};
}

}  // namespace sbx::kernel
