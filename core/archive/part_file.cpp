// Part file: see part_file.h.
#include "core/archive/part_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "core/base/fs.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::archive {

namespace {

constexpr std::string_view kPrefix = ".sbx-part-";
constexpr std::size_t kDigits = 32;

struct DirCloser {
  void operator()(DIR* dir) const { (void)::closedir(dir); }
};

bool lock_now(int fd) {
  return ::flock(fd, LOCK_EX | LOCK_NB) == 0;
}

Result<UniqueFd> create_new(int dirfd, const std::string& name) {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    SBX_ASSIGN(UniqueFd fd,
               sys::openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY, 0600));
    (void)lock_now(fd.get());  // a file system without locks only loses the cleaning up
    SBX_ASSIGN(const struct stat info, sys::fstat(fd.get()));
    if (info.st_nlink > 0) return fd;  // else another copy cleaned up before we had the lock
  }
  return Error(Errc::kSystem, text::cat("make ", name, ": it is removed again and again"));
}

/// What a killed copy left under a hidden name. One that is being written is locked; a link is made
/// and renamed in one go, so the chance to meet one in use is small, and its copy then says so.
bool is_leftover(int dirfd, const std::string& name) {
  struct stat info {};
  if (::fstatat(dirfd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  if (info.st_uid != ::geteuid() || S_ISDIR(info.st_mode)) return false;
  if (!S_ISREG(info.st_mode)) return true;
  const Result<UniqueFd> fd =
      sys::openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (!fd.ok()) return fd.error().sys_errno() == EACCES;
  return lock_now(fd.value().get()) || errno != EWOULDBLOCK;
}

}  // namespace

std::string part_name(std::string_view name, std::uint64_t size, std::int64_t mtime_ns) {
  Sha256 hash;
  hash.update(name);
  hash.update(std::string_view("\0", 1));
  hash.update(text::cat(size, ' ', mtime_ns));
  return text::cat(kPrefix, std::string_view(hash.hex()).substr(0, kDigits));
}

bool is_part_name(std::string_view name) {
  if (name.size() != kPrefix.size() + kDigits || !name.starts_with(kPrefix)) return false;
  return name.substr(kPrefix.size()).find_first_not_of("0123456789abcdef") ==
         std::string_view::npos;
}

Result<UniqueFd> create_part(int dirfd, std::string& name) {
  Result<UniqueFd> made = create_new(dirfd, name);
  if (made.ok() || made.error().code() != Errc::kExists) return made;
  const Result<UniqueFd> old = open_part(dirfd, name);
  const bool is_in_use = !old.ok() && old.error().code() == Errc::kExists;
  if (!is_in_use) {
    SBX_TRY(sys::unlinkat(dirfd, name));
    made = create_new(dirfd, name);
    if (made.ok() || made.error().code() != Errc::kExists) return made;
  }
  std::array<std::byte, kDigits / 2> random{};
  const std::string seed = fs::random_name(32);
  Sha256 hash;
  hash.update(seed);
  const auto digest = hash.digest();
  std::copy_n(digest.begin(), random.size(), random.begin());
  name = text::cat(kPrefix, text::hex(random));
  return create_new(dirfd, name);
}

Result<UniqueFd> open_part(int dirfd, const std::string& name) {
  SBX_ASSIGN(UniqueFd fd, sys::openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  SBX_ASSIGN(const struct stat info, sys::fstat(fd.get()));
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || info.st_nlink != 1) {
    return Error(Errc::kUsage, text::cat(name, " is not an unfinished file of a copy"));
  }
  if (!lock_now(fd.get()) && errno == EWOULDBLOCK) {
    return Error(Errc::kExists, text::cat(name, " is in use by another copy"));
  }
  return fd;
}

void remove_parts(int dirfd) {
  Result<UniqueFd> again = sys::openat(dirfd, ".", O_RDONLY | O_DIRECTORY);
  if (!again.ok()) return;
  const std::unique_ptr<DIR, DirCloser> stream(::fdopendir(again.value().get()));
  if (stream == nullptr) return;
  (void)again.value().release();
  std::vector<std::string> found;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (is_part_name(entry->d_name)) found.emplace_back(entry->d_name);
  }
  for (const std::string& name : found) {
    if (is_leftover(dirfd, name)) static_cast<void>(sys::unlinkat(dirfd, name));
  }
}

Result<std::string> content_digest(int fd, std::uint64_t size) {
  constexpr std::uint64_t kPiece = std::uint64_t{64} << 10U;
  std::vector<char> buffer(kPiece);
  Sha256 hash;
  std::uint64_t at = 0;
  while (at < size) {
    const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // nothing but a hole up to the end
    if (data > 0) at = std::max(at, static_cast<std::uint64_t>(data) / kPiece * kPiece);
    if (at >= size) break;
    const auto want = static_cast<std::size_t>(std::min(kPiece, size - at));
    std::size_t got = 0;
    while (got < want) {
      const ssize_t n = ::pread(fd, buffer.data() + got, want - got, static_cast<off_t>(at + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return sys_error("read an unfinished file");
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    const std::string_view piece(buffer.data(), got);
    if (piece.find_first_not_of('\0') != std::string_view::npos) {
      hash.update(text::cat(at, ':', got, ':'));
      hash.update(piece);
    }
    if (got < want) break;
    at += got;
  }
  hash.update(text::cat("size ", size));
  return hash.hex();
}

}  // namespace sbx::archive
