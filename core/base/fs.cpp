// Fs: rooted opening, whole-file reading and atomic writing, and temporary directories.
#include "core/base/fs.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "core/base/scope_exit.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::fs {
namespace {

Result<std::string> read_opened(Result<UniqueFd> opened, const std::string& path, Bytes cap) {
  SBX_ASSIGN(const UniqueFd fd, std::move(opened));
  Result<std::string> content = sys::read_all(fd.get(), cap);
  if (!content.ok()) return std::move(content).error().prefixed(text::cat("read ", path));
  return content;
}

/// Makes one directory; success when a directory (or a link to one) is there already.
Status make_one(const std::string& path, mode_t mode) {
  Status made = sys::mkdirat(AT_FDCWD, path, mode);
  if (made.ok() || made.error().sys_errno() != EEXIST) return made;
  SBX_ASSIGN(const struct stat st, sys::fstatat(AT_FDCWD, path, 0));
  if (!S_ISDIR(st.st_mode)) return made;
  return {};
}

}  // namespace

Result<UniqueFd> open_dir(const std::string& path) {
  return sys::open(path, O_RDONLY | O_DIRECTORY);
}

Result<UniqueFd> open_in(int dirfd, const std::string& rel, int flags, mode_t mode) {
  // openat2(2) refuses a mode without O_CREAT, and any bit above 32.
  return sys::openat2(
      dirfd, rel, static_cast<unsigned>(flags), mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

Status write_atomic(int dirfd, const std::string& name, std::string_view content, mode_t mode) {
  constexpr mode_t kPrivate = 0600;
  const std::string temporary = text::cat(".sbx-", random_name(16));
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  SBX_ASSIGN(const UniqueFd fd, sys::openat(dirfd, temporary, kFlags, kPrivate));
  // Goes with this process: a file whose lock is free was left by one that was killed.
  static_cast<void>(::flock(fd.get(), LOCK_EX | LOCK_NB));
  ScopeExit undo([&] { static_cast<void>(sys::unlinkat(dirfd, temporary)); });
  const auto fill = [&]() -> Status {
    SBX_TRY(sys::write_all(fd.get(), content));
    SBX_TRY(sys::fchmod(fd.get(), mode));
    return sys::fsync(fd.get());
  };
  if (Status filled = fill(); !filled.ok()) {
    return std::move(filled).error().prefixed(text::cat("write ", name));
  }
  SBX_TRY(sys::renameat(dirfd, temporary, dirfd, name));
  undo.cancel();
  // `dirfd` may be O_PATH, which cannot be flushed; so a fresh one.
  SBX_ASSIGN(const UniqueFd dir, sys::openat(dirfd, ".", O_RDONLY | O_DIRECTORY));
  return sys::fsync(dir.get());
}

Result<std::string> read_file(const std::string& path, Bytes cap) {
  return read_opened(sys::open(path, O_RDONLY), path, cap);
}

Result<std::string> read_file_at(int dirfd, const std::string& name, Bytes cap) {
  return read_opened(
      sys::openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY), name, cap);
}

Status mkdirs(const std::string& path, mode_t mode) {
  Status made = make_one(path, mode);
  if (made.ok() || made.error().sys_errno() != ENOENT) return made;
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    SBX_TRY(make_one(path.substr(0, at), mode));
  }
  return make_one(path, mode);
}

std::string random_name(std::size_t count) {
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";  // 32: no bias
  std::string name;
  std::array<unsigned char, 32> bytes{};
  while (name.size() < count) {
    // Up to 256 bytes never fail and are never short once the pool is ready (getrandom(2)).
    if (::getrandom(bytes.data(), bytes.size(), 0) == -1) continue;  // EINTR before it is ready
    for (const unsigned char byte : bytes) {
      if (name.size() < count) name += kAlphabet[byte % kAlphabet.size()];
    }
  }
  return name;
}

OwnerUmask::OwnerUmask() : old_(::umask(077)) {  // there is no call that only asks
  ::umask(old_ & 077U);
}

OwnerUmask::~OwnerUmask() {
  ::umask(old_);
}

// --- TempDir ---

Result<TempDir> TempDir::create(const std::string& parent, const std::string& prefix) {
  constexpr int kTries = 16;
  constexpr mode_t kPrivate = 0700;
  TempDir dir;
  const OwnerUmask mask;
  SBX_ASSIGN(UniqueFd base, open_dir(parent));
  Status made;
  for (int i = 0; i < kTries; ++i) {
    dir.name_ = prefix + random_name(12);
    made = sys::mkdirat(base.get(), dir.name_, kPrivate);
    if (made.ok() || made.error().sys_errno() != EEXIST) break;
  }
  dir.path_ = text::cat(parent, "/", dir.name_);
  if (!made.ok()) return std::move(made).error().prefixed(text::cat("in ", parent));
  ScopeExit undo([&] { static_cast<void>(sys::unlinkat(base.get(), dir.name_, AT_REMOVEDIR)); });
  SBX_ASSIGN(dir.fd_, sys::openat(base.get(), dir.name_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  SBX_ASSIGN(const struct stat st, sys::fstat(dir.fd_.get()));
  if (st.st_uid != ::geteuid()) {
    return Error(Errc::kDenied, text::cat(dir.path_, " was replaced by somebody else"));
  }
  undo.cancel();
  dir.parent_ = std::move(base);
  return dir;
}

TempDir::~TempDir() {
  static_cast<void>(remove());
}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  if (this == &other) return *this;
  static_cast<void>(remove());
  parent_ = std::move(other.parent_);
  fd_ = std::move(other.fd_);
  name_ = std::move(other.name_);
  path_ = std::move(other.path_);
  return *this;
}

Status TempDir::remove() {
  if (!parent_.valid()) return {};
  const UniqueFd parent = std::move(parent_);
  fd_.reset();
  return remove_tree(parent.get(), name_);
}

}  // namespace sbx::fs
