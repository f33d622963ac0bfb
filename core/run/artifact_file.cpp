// Artifact file: safe opening, holes by SEEK_DATA, digest on the way.
#include "core/run/artifact_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/mime.h"

namespace sbx::run {

namespace {

constexpr std::uint64_t kResolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
constexpr std::uint64_t kReadFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

Result<UniqueFd> open_unreadable(int dirfd, const std::string& path, mode_t type) {
  SBX_ASSIGN(const UniqueFd handle, sys::openat2(dirfd, path, O_PATH | O_NOFOLLOW, 0, kResolve));
  SBX_ASSIGN(const struct stat st, sys::fstat(handle.get()));
  if ((st.st_mode & S_IFMT) != type) return sys_error(text::cat("open ", path), ELOOP);
  const mode_t wanted = S_ISDIR(st.st_mode) ? S_IRWXU : S_IRUSR;
  // fchmod(2) refuses O_PATH descriptors; through /proc it is the file itself, never its name.
  const std::string self = text::cat("/proc/self/fd/", handle.get());
  if (::chmod(self.c_str(), (st.st_mode & 07777U) | wanted) != 0) {
    return sys_error(text::cat("open ", path));
  }
  return sys::openat2(dirfd, path, kReadFlags, 0, kResolve);
}

}  // namespace

Result<UniqueFd> open_artifact(int dirfd, const std::string& path, mode_t type) {
  auto opened = sys::openat2(dirfd, path, kReadFlags, 0, kResolve);
  if (!opened.ok() && opened.error().sys_errno() == EACCES) {
    opened = open_unreadable(dirfd, path, type);
  }
  if (!opened.ok()) return opened;
  SBX_ASSIGN(const struct stat st, sys::fstat(opened.value().get()));
  if ((st.st_mode & S_IFMT) != type) {
    return Error(Errc::kUsage, text::cat("open ", path, ": is of another kind now"));
  }
  return opened;
}

Result<ArtifactFile> ArtifactFile::open(int dirfd, const std::string& path) {
  SBX_ASSIGN(UniqueFd fd, open_artifact(dirfd, path, S_IFREG));
  SBX_ASSIGN(const struct stat st, sys::fstat(fd.get()));
  ArtifactFile file(std::move(fd), static_cast<std::uint64_t>(st.st_size));
  constexpr std::uint64_t kBlock =
      512;  // st_blocks counts these whatever the file system (stat(2))
  if (static_cast<std::uint64_t>(st.st_blocks) * kBlock < file.size_) file.find_extents();
  return file;
}

void ArtifactFile::find_extents() {
  std::uint64_t at = 0;
  while (at < size_) {
    const off_t data = ::lseek(fd_.get(), static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // nothing but hole from here on
    const off_t hole = data < 0 ? -1 : ::lseek(fd_.get(), data, SEEK_HOLE);
    if (hole <= data) {  // not supported: all of it is data
      extents_.clear();
      return;
    }
    const std::uint64_t end = std::min(static_cast<std::uint64_t>(hole), size_);
    extents_.push_back({.offset = static_cast<std::uint64_t>(data),
                        .length = end - static_cast<std::uint64_t>(data)});
    at = end;
  }
  const bool is_whole =
      extents_.size() == 1 && extents_[0].offset == 0 && extents_[0].length == size_;
  if (is_whole) extents_.clear();
  if (extents_.empty() && !is_whole) extents_.push_back({.offset = size_, .length = 0});
}

Result<ArtifactFile::Piece> ArtifactFile::next(std::span<std::byte> buffer) {
  if (at_ >= size_) return Piece{};
  std::uint64_t end = size_;
  bool is_hole = false;
  if (!extents_.empty()) {
    while (extent_ < extents_.size() &&
           extents_[extent_].offset + extents_[extent_].length <= at_) {
      ++extent_;
    }
    is_hole = extent_ == extents_.size() || extents_[extent_].offset > at_;
    if (extent_ < extents_.size()) {
      const archive::Extent& extent = extents_[extent_];
      end = is_hole ? extent.offset : extent.offset + extent.length;
    }
  }
  const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(end - at_, buffer.size()));
  std::size_t have = want;
  if (is_hole) {
    std::memset(buffer.data(), 0, want);
  } else {
    ssize_t n = 0;
    do {
      n = ::pread(fd_.get(), buffer.data(), want, static_cast<off_t>(at_));
    } while (n < 0 && errno == EINTR);
    if (n < 0) return sys_error("read");
    if (n == 0) return Error(Errc::kProtocol, "read: the file is shorter than its size");
    have = static_cast<std::size_t>(n);
  }
  const std::span<const std::byte> got = buffer.first(have);
  if (head_.size() < kMimeHead) {
    const std::size_t take = std::min(kMimeHead - head_.size(), have);
    for (const std::byte b : got.first(take)) {
      head_.push_back(static_cast<char>(b));
    }
  }
  hash_.update(got);
  at_ += have;
  return Piece{.size = have, .is_hole = is_hole};
}

std::string ArtifactFile::mime(const std::string& path) const {
  return std::string(mime_type(path, head_));
}

}  // namespace sbx::run
