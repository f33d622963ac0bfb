// Beneath: one component a step, descriptors only.
#include "core/workspace/beneath.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/caps.h"

namespace sbx::workspace {
namespace {

constexpr std::uint64_t kResolve =
    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
constexpr std::size_t kPiece = 4000;  // below PATH_MAX with its NUL
constexpr std::string_view kOverlayPrefix = "user.overlay.";
constexpr const char* kOpaque = "user.overlay.opaque";

Result<UniqueFd> open_path(int dirfd, const std::string& path, int flags) {
  return sys::openat2(dirfd, path, static_cast<unsigned>(flags | O_NOFOLLOW), 0, kResolve);
}

/// The first part of `path` that fits into one call, cut at a '/'.
std::string_view first_piece(std::string_view path) {
  if (path.size() <= kPiece) return path;
  const std::size_t slash = path.rfind('/', kPiece);
  return slash == std::string_view::npos ? path : path.substr(0, slash);
}

void write_proc_file(const char* path, const std::string& text) {
  const Result<UniqueFd> file = sys::open(path, O_WRONLY);
  if (file.ok()) static_cast<void>(sys::write(file.value().get(), text));
}

}  // namespace

Result<UniqueFd> open_entry(int dirfd, const std::string& name, int flags) {
  return open_path(dirfd, name, flags);
}

Result<UniqueFd> open_regular(int dirfd, const std::string& name) {
  SBX_ASSIGN(const UniqueFd path, open_path(dirfd, name, O_PATH));
  SBX_ASSIGN(const struct stat st, sys::fstat(path.get()));
  if (!S_ISREG(st.st_mode)) {
    return Error(Errc::kUsage, text::cat("open ", name, ": it is no regular file"));
  }
  auto opened = sys::open(proc_path(path.get()), O_RDONLY | O_NOCTTY | O_NONBLOCK);
  if (!opened.ok()) return std::move(opened).error().prefixed(name);
  return opened;
}

Result<UniqueFd> open_directory(int dirfd, std::string_view path) {
  if (path.size() > kMaxPath) {
    return Error(Errc::kLimit, text::cat("a path has more than ", kMaxPath, " bytes"))
        .with_hint("remove the deep tree inside, then try again");
  }
  constexpr int kFlags = O_RDONLY | O_DIRECTORY;
  if (path.empty()) return open_path(dirfd, ".", kFlags);
  UniqueFd at;
  while (true) {
    const std::string_view piece = first_piece(path);
    SBX_ASSIGN(at, open_path(at.valid() ? at.get() : dirfd, std::string(piece), kFlags));
    if (piece.size() == path.size()) return at;
    path.remove_prefix(piece.size() + 1);
  }
}

Result<int> DirCursor::open(const std::string& path) {
  const bool is_same = fd_.valid() && path == path_;
  if (is_same) return fd_.get();
  const bool is_below = fd_.valid() && !path_.empty() && path.size() > path_.size() &&
                        path.starts_with(path_) && path[path_.size()] == '/';
  if (path.size() > kMaxPath || !is_below) {
    SBX_ASSIGN(fd_, open_directory(base_, path));
  } else {
    SBX_ASSIGN(fd_, open_directory(fd_.get(), std::string_view(path).substr(path_.size() + 1)));
  }
  path_ = path;
  return fd_.get();
}

Result<std::vector<std::string>> read_names(int dirfd) {
  std::vector<std::string> names;
  alignas(dirent64) std::array<char, 32768> buffer{};
  if (::lseek(dirfd, 0, SEEK_SET) == -1) return sys_error("rewind directory");
  while (true) {
    const ssize_t size = ::getdents64(dirfd, buffer.data(), buffer.size());
    if (size == -1 && errno == ENOENT) return names;  // removed meanwhile
    if (size == -1) return sys_error("read directory");
    if (size == 0) return names;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      const void* record = buffer.data() + at;
      const auto* entry = static_cast<const dirent64*>(record);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (names.size() >= kMaxNames) {
        return Error(Errc::kLimit, text::cat("a directory has more than ", kMaxNames, " names"));
      }
      names.emplace_back(name);
    }
  }
}

bool is_whiteout(const struct stat& st) {
  return S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
}

Result<bool> is_opaque(int dirfd) {
  char value = 0;
  const ssize_t size = ::fgetxattr(dirfd, kOpaque, &value, 1);
  if (size == 1) return value == 'y';
  if (size >= 0 || errno == ENODATA || errno == EOPNOTSUPP || errno == ERANGE) return false;
  return sys_error("read attribute user.overlay.opaque");
}

Result<std::vector<Xattr>> all_xattrs(int fd) {
  std::vector<Xattr> found;
  // The kernel's own bounds: XATTR_LIST_MAX and XATTR_SIZE_MAX (xattr(7)).
  std::string list(std::size_t{64} << 10U, '\0');
  const ssize_t size = ::flistxattr(fd, list.data(), list.size());
  if (size == -1 && errno == EOPNOTSUPP) return found;
  if (size == -1) return sys_error("list attributes");
  std::string value;
  for (const std::string_view name :
       text::split(std::string_view(list).substr(0, static_cast<std::size_t>(size)), '\0')) {
    if (name.empty()) continue;
    value.resize(std::size_t{64} << 10U);
    const std::string key(name);
    const ssize_t length = ::fgetxattr(fd, key.c_str(), value.data(), value.size());
    if (length == -1 && (errno == ENODATA || errno == EOPNOTSUPP)) continue;
    if (length == -1) return sys_error(text::cat("read attribute ", key));
    found.emplace_back(key, value.substr(0, static_cast<std::size_t>(length)));
  }
  std::ranges::sort(found);
  return found;
}

Result<std::vector<Xattr>> content_xattrs(int fd) {
  SBX_ASSIGN(std::vector<Xattr> found, all_xattrs(fd));
  std::erase_if(found, [](const Xattr& attr) {
    return !attr.first.starts_with("user.") || attr.first.starts_with(kOverlayPrefix);
  });
  return found;
}

std::string proc_path(int fd) {
  return text::cat("/proc/self/fd/", fd);
}

void reach_own_files() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (uid == 0 || ::unshare(CLONE_NEWUSER) == -1) return;
  // An unprivileged process may map its own ids only, after giving up setgroups
  // (user_namespaces(7)).
  write_proc_file("/proc/self/uid_map", text::cat(uid, " ", uid, " 1"));
  write_proc_file("/proc/self/setgroups", "deny");
  write_proc_file("/proc/self/gid_map", text::cat(gid, " ", gid, " 1"));
}

PlainRights::PlainRights() {
  if (::geteuid() == 0) return;
  if (const auto old = confine::swap_effective_caps(0); old.ok()) old_ = old.value();
}

PlainRights::~PlainRights() {
  if (old_.has_value()) static_cast<void>(confine::swap_effective_caps(*old_));
}

std::string join_path(std::string_view dir, std::string_view name) {
  return dir.empty() ? std::string(name) : text::cat(dir, "/", name);
}

std::pair<std::string, std::string> split_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace sbx::workspace
