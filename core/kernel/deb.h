// Deb: the files of a Debian package (deb(5)): an ar(5) archive with a compressed tar file in it,
// read in one pass.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/archive/archive_reader.h"
#include "core/base/result.h"

namespace sbx::kernel {

inline constexpr std::string_view kArMagic = "!<arch>\n";
inline constexpr std::size_t kArHeaderSize = 60;

struct ArMember {
  std::string name;  ///< without the '/' that some writers put behind it
  std::uint64_t size = 0;
};
/// What a member's header says. Pure; kProtocol when it is none.
Result<ArMember> parse_ar_header(std::string_view header);

class DebReader {
 public:
  /// `fd` is at the start of the package; it stays the caller's and must outlive this. kProtocol
  /// when it is none, kUnsupported for a format that is not known.
  static Result<DebReader> open(int fd);
  ~DebReader();
  DebReader(DebReader&& other) noexcept;
  DebReader& operator=(DebReader&& other) noexcept;
  DebReader(const DebReader&) = delete;
  DebReader& operator=(const DebReader&) = delete;

  /// As archive::ArchiveReader's. kLimit for a package of more than 200,000 files or 16 GiB.
  Result<bool> next(archive::Member& member);
  Result<archive::MemberData> data();

 private:
  struct Impl;
  explicit DebReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sbx::kernel
