// Archive reader: the plain bytes of a compressed stream, and the members of a tar stream, read
// with libarchive. Everything in the stream may be hostile.
//
// It says what the stream says: whether a path, an owner or a size may be used is for who writes
// files. Which formats are understood is fixed here (no format but tar, no filter that starts a
// program). A process that reads hostile streams should be one that owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace sbx::archive {

enum class Compression : std::uint8_t { kNone, kGzip, kBzip2, kXz, kZstd, kLz4 };

/// By the first bytes of a stream (6 are enough); kNone for anything unknown.
Compression compression_of(std::string_view head);
/// "gzip" and so on; "none".
std::string_view name(Compression compression);
/// Whether `head` (512 bytes) is the first header of a tar stream, or an end mark.
bool is_tar_header(std::string_view head);

/// The next bytes of a stream, valid until the next call; empty at its end. May block.
using NextBlock = std::function<Result<std::span<const std::byte>>()>;
/// Passes over at most so many bytes of it; how many it did, 0 when it cannot.
using SkipBytes = std::function<Result<std::uint64_t>(std::uint64_t)>;

/// The plain bytes of a compressed stream; several frames or members one after the other are one.
class Decompressor {
 public:
  /// `compression` is not kNone.
  static Result<Decompressor> open(Compression compression, NextBlock input);
  ~Decompressor();
  Decompressor(Decompressor&& other) noexcept;
  Decompressor& operator=(Decompressor&& other) noexcept;
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  /// The next ones, valid until the next call; empty at the end. kProtocol for a broken or cut
  /// stream, else the error of `input`.
  Result<std::span<const std::byte>> next();

 private:
  struct Impl;
  explicit Decompressor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

enum class MemberType : std::uint8_t {
  kFile,
  kDirectory,
  kSymlink,
  kHardLink,
  kFifo,
  kCharDevice,
  kBlockDevice,
  kOther,  ///< sockets and what the format does not know
};

/// One member of a tar stream as it says. All texts are bytes.
struct Member {
  std::string path;
  MemberType type = MemberType::kFile;
  std::uint32_t mode = 0;  ///< 07777
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  bool has_mtime = false;
  std::int64_t mtime_s = 0;
  std::uint32_t mtime_ns = 0;
  std::uint64_t size = 0;  ///< of the file, holes included
  std::string link;        ///< text of a link, path of a hard link's target
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::vector<std::pair<std::string, std::string>> xattrs;
  bool has_acl = false;
};

/// A stretch of a member's content; empty at its end.
struct MemberData {
  std::span<const std::byte> bytes;  ///< valid until the next call
  std::uint64_t offset = 0;          ///< in the file; what lies between stretches is zero
};

class ArchiveReader {
 public:
  /// A tar stream (V7, ustar, pax, GNU), not compressed; nothing at all is one without members.
  static Result<ArchiveReader> open(NextBlock input, SkipBytes skip = {});
  ~ArchiveReader();
  ArchiveReader(ArchiveReader&& other) noexcept;
  ArchiveReader& operator=(ArchiveReader&& other) noexcept;
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  /// Reads the next member into `member`, passing over what was not read of the one before; false
  /// after the last. kProtocol for a broken stream, else the error of `input`.
  Result<bool> next(Member& member);
  /// The next stretch of that member's content.
  Result<MemberData> data();

 private:
  struct Impl;
  explicit ArchiveReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sbx::archive
