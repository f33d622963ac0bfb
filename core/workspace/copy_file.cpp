// Copy file: FICLONE, copy_file_range, read and write, in this order of preference.
#include "core/workspace/copy_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string_view>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/workspace/beneath.h"

namespace sbx::workspace {
namespace {

constexpr std::uint64_t kStep = std::uint64_t{16} << 20U;
constexpr std::size_t kBuffer = std::size_t{128} << 10U;

class Stretch {
 public:
  Stretch(int in, int out, const OnBytes& on_bytes) : in_(in), out_(out), on_bytes_(on_bytes) {}

  /// Copies [begin, end); a file that got shorter meanwhile ends early.
  Status copy(std::uint64_t begin, std::uint64_t end) {
    auto at = static_cast<off64_t>(begin);
    while (static_cast<std::uint64_t>(at) < end) {
      const std::uint64_t want = std::min(end - static_cast<std::uint64_t>(at), kStep);
      SBX_ASSIGN(const std::uint64_t size, step(at, want));
      if (size == 0) return {};
      at += static_cast<off64_t>(size);
      if (on_bytes_) SBX_TRY(on_bytes_(size));
    }
    return {};
  }

 private:
  Result<std::uint64_t> step(off64_t at, std::uint64_t want) {
    if (!is_plain_) {
      off64_t from = at;
      off64_t to = at;
      const ssize_t n = ::copy_file_range(in_, &from, out_, &to, want, 0);
      if (n > 0) return static_cast<std::uint64_t>(n);
      if (n == -1 && (errno == ENOSPC || errno == EDQUOT || errno == EIO)) {
        return sys_error("copy content");
      }
      // Refused, or 0 for a file whose size says nothing (kernel 5.19 and before): by hand.
      is_plain_ = true;
    }
    return by_hand(at, want);
  }

  Result<std::uint64_t> by_hand(off64_t at, std::uint64_t want) {
    if (buffer_.empty()) buffer_.resize(kBuffer);
    const ssize_t n = ::pread(in_, buffer_.data(), std::min<std::uint64_t>(want, kBuffer), at);
    if (n == -1) return sys_error("read content");
    ssize_t done = 0;
    while (done < n) {
      const ssize_t m =
          ::pwrite(out_, buffer_.data() + done, static_cast<std::size_t>(n - done), at + done);
      if (m == -1 && errno != EINTR) return sys_error("write content");
      if (m > 0) done += m;
    }
    return static_cast<std::uint64_t>(n);
  }

  int in_;
  int out_;
  const OnBytes& on_bytes_;
  bool is_plain_ = false;
  std::string buffer_;
};

bool try_reflink(int in, int out, Reflink& reflink) {
  if (reflink == Reflink::kNever) return false;
  if (::ioctl(out, FICLONE, in) == 0) return true;
  // A file that is busy or odd in itself (EINVAL, ETXTBSY) says nothing of the others.
  if (errno == EOPNOTSUPP || errno == ENOTTY || errno == EXDEV || errno == ENOSYS) {
    reflink = Reflink::kNever;
  }
  return false;
}

/// An attribute that only a privileged process may set.
bool is_privileged(std::string_view name) {
  return name.starts_with("security.") || name.starts_with("trusted.");
}

/// An attribute in which overlayfs keeps its own notes. What the inside wrote under such a name is
/// stored as "user.overlay.overlay.*" (Linux 6.7) and belongs to the file.
bool is_note_of_overlayfs(std::string_view name) {
  return name.starts_with("user.overlay.") && !name.starts_with("user.overlay.overlay.");
}

Status copy_attributes(int from, int to, Attributes attributes) {
  SBX_ASSIGN(const std::vector<Xattr> found, all_xattrs(from));
  for (const auto& [name, value] : found) {
    if (attributes == Attributes::kMerged && is_note_of_overlayfs(name)) continue;
    if (::fsetxattr(to, name.c_str(), value.data(), value.size(), 0) == 0) continue;
    if (is_privileged(name) && (errno == EPERM || errno == EOPNOTSUPP)) continue;
    return sys_error(text::cat("set attribute ", name));
  }
  return {};
}

std::array<timespec, 2> times_of(const struct stat& st) {
  return {st.st_atim, st.st_mtim};
}

}  // namespace

Result<ContentCopy> copy_content(
    int in, int out, std::uint64_t size, Reflink& reflink, const OnBytes& on_bytes) {
  ContentCopy copy;
  if (size == 0) return copy;
  if (try_reflink(in, out, reflink)) {
    copy.reflinked = true;
    copy.bytes = size;
    if (on_bytes) SBX_TRY(on_bytes(size));
    return copy;
  }
  Stretch stretch(in, out, on_bytes);
  std::uint64_t at = 0;
  while (at < size) {
    off64_t begin = ::lseek64(in, static_cast<off64_t>(at), SEEK_DATA);
    if (begin == -1 && errno == ENXIO) break;           // a hole to the end
    if (begin == -1) begin = static_cast<off64_t>(at);  // it cannot tell: all is data
    off64_t end = ::lseek64(in, begin, SEEK_HOLE);
    if (end <= begin) end = static_cast<off64_t>(size);
    SBX_TRY(stretch.copy(static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end)));
    copy.bytes += static_cast<std::uint64_t>(end - begin);
    at = static_cast<std::uint64_t>(end);
  }
  SBX_TRY(sys::ftruncate(out, Bytes{size}));
  return copy;
}

Status copy_metadata(int from, int to, const struct stat& st, Attributes attributes) {
  SBX_ASSIGN(const struct stat now, sys::fstat(to));
  // The owner first: a change of it drops the bits for set-user-ID and capabilities.
  if (now.st_uid != st.st_uid || now.st_gid != st.st_gid) {
    SBX_TRY(sys::fchown(to, st.st_uid, st.st_gid));
  }
  SBX_TRY(copy_attributes(from, to, attributes));
  SBX_TRY(sys::fchmod(to, st.st_mode & 07777U));
  if (::futimens(to, times_of(st).data()) == -1) return sys_error("set times");
  return {};
}

Status copy_metadata_at(int dirfd, const std::string& name, const struct stat& st) {
  SBX_ASSIGN(const struct stat now, sys::fstatat(dirfd, name, AT_SYMLINK_NOFOLLOW));
  if (now.st_uid != st.st_uid || now.st_gid != st.st_gid) {
    SBX_TRY(sys::fchownat(dirfd, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW));
  }
  // A link's mode cannot be set and means nothing. What it is done to was made by this process
  // beside nobody, so following is no matter.
  if (!S_ISLNK(st.st_mode) && ::fchmodat(dirfd, name.c_str(), st.st_mode & 07777U, 0) == -1) {
    return sys_error(text::cat("set mode of ", name));
  }
  if (::utimensat(dirfd, name.c_str(), times_of(st).data(), AT_SYMLINK_NOFOLLOW) == -1) {
    return sys_error(text::cat("set times of ", name));
  }
  return {};
}

}  // namespace sbx::workspace
