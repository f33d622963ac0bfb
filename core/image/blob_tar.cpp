// Blob tar: see blob_tar.h.
#include "core/image/blob_tar.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "core/archive/tar_format.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::image {

namespace {

namespace tar = archive::tar;

constexpr std::uint64_t kMaxOctalSize = 077777777777;
constexpr std::array<char, 2 * tar::kBlock> kZeros{};

/// Octal digits, or from 8 GiB on base 256, as GNU tar and everybody else.
void set_size(std::array<char, 12>& field, std::uint64_t size) {
  if (size <= kMaxOctalSize) {
    static_cast<void>(tar::set_number(field, size));
    return;
  }
  for (std::size_t i = field.size(); i > 1; --i) {
    field[i - 1] = static_cast<char>(size & 0xffU);
    size >>= 8U;
  }
  field[0] = static_cast<char>(0x80);
}

Status pwrite_all(int fd, std::string_view data, std::uint64_t at) {
  while (!data.empty()) {
    const ssize_t n = ::pwrite64(fd, data.data(), data.size(), static_cast<off64_t>(at));
    if (n == -1 && errno == EINTR) continue;
    if (n == -1) return sys_error("write the archive");
    at += static_cast<std::uint64_t>(n);
    data.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace

Status BlobTar::put_header(const std::string& name,
                           std::uint64_t size,
                           char type,
                           std::uint64_t at) const {
  tar::Header header{};
  if (name.size() > header.name.size()) return Error(Errc::kInternal, "a blob's name is too long");
  std::memcpy(header.name.data(), name.data(), name.size());
  header.type = type;
  std::memcpy(header.magic.data(), "ustar\00000", header.magic.size());
  static_cast<void>(tar::set_number(header.mode, type == '5' ? 0755 : 0644));
  static_cast<void>(tar::set_number(header.uid, 0));
  static_cast<void>(tar::set_number(header.gid, 0));
  static_cast<void>(tar::set_number(header.mtime, 0));
  static_cast<void>(tar::set_number(header.major, 0));
  static_cast<void>(tar::set_number(header.minor, 0));
  set_size(header.size, size);
  tar::set_checksum(header);
  return pwrite_all(fd_, {reinterpret_cast<const char*>(&header), sizeof header}, at);
}

Status BlobTar::begin() {
  const off64_t at = ::lseek64(fd_, 0, SEEK_CUR);
  if (at == -1) return sys_error("seek in the archive");
  header_at_ = static_cast<std::uint64_t>(at);
  return sys::write_all(fd_, {kZeros.data(), tar::kBlock});
}

Status BlobTar::end(const std::string& name, std::uint64_t size) {
  SBX_TRY(sys::write_all(fd_, {kZeros.data(), tar::padding(size)}));
  return put_header(name, size, '0', header_at_);
}

Status BlobTar::add(const std::string& name, std::string_view content) {
  SBX_TRY(begin());
  SBX_TRY(sys::write_all(fd_, content));
  return end(name, content.size());
}

Status BlobTar::add_directory(const std::string& name) {
  SBX_TRY(begin());
  return put_header(name, 0, '5', header_at_);
}

Status BlobTar::finish() {
  return sys::write_all(fd_, {kZeros.data(), kZeros.size()});
}

}  // namespace sbx::image
