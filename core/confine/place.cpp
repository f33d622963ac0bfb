// Place: see place.h.
#include "core/confine/place.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/mount_tools.h"

namespace sbx::confine {

namespace {

constexpr std::string_view kAside = ".sbx-displaced-";
constexpr int kMaxAside = 1000;
/// Directories of lower layers that are moved one by one, this deep at most.
constexpr int kMaxDepth = 48;
constexpr size_t kBatch = 1024;
constexpr mode_t kModeBits = 07777;

/// Some names in `dir`, or all when they are few.
Result<std::vector<std::string>> some_names(int dir) {
  SBX_ASSIGN(UniqueFd list, sys::openat(dir, ".", O_RDONLY | O_DIRECTORY));
  DIR* stream = ::fdopendir(list.get());
  if (stream == nullptr) return sys_error("list a directory");
  (void)list.release();  // belongs to the stream now
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream)) {  // NOLINT(concurrency-mt-unsafe): one thread
    const std::string_view name(static_cast<const char*>(entry->d_name));
    if (name != "." && name != "..") names.emplace_back(name);
    if (names.size() == kBatch) break;
  }
  (void)::closedir(stream);
  return names;
}

Status move_tree(int from, const std::string& name, int to, const std::string& new_name, int depth);

/// A directory that has a part in a lower layer cannot be renamed (EXDEV, redirect_dir is off): a
/// new one takes what is in it.
Status move_entries(
    int from, const std::string& name, int to, const std::string& new_name, int depth) {
  SBX_ASSIGN(const UniqueFd old, sys::openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  SBX_ASSIGN(const struct stat info, sys::fstat(old.get()));
  SBX_TRY(sys::mkdirat(to, new_name, 0700));
  SBX_ASSIGN(const UniqueFd made, sys::openat(to, new_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  for (;;) {
    SBX_ASSIGN(const std::vector<std::string> names, some_names(old.get()));
    if (names.empty()) break;
    for (const std::string& entry : names) {
      SBX_TRY(move_tree(old.get(), entry, made.get(), entry, depth - 1));
    }
  }
  SBX_TRY(sys::fchown(made.get(), info.st_uid, info.st_gid));
  SBX_TRY(sys::fchmod(made.get(), info.st_mode & kModeBits));
  return sys::unlinkat(from, name, AT_REMOVEDIR);
}

Status move_tree(
    int from, const std::string& name, int to, const std::string& new_name, int depth) {
  Status moved = sys::renameat(from, name, to, new_name, RENAME_NOREPLACE);
  if (moved.ok() || moved.error().code() == Errc::kExists) return moved;
  SBX_ASSIGN(const struct stat info, sys::fstatat(from, name, AT_SYMLINK_NOFOLLOW));
  if (S_ISDIR(info.st_mode)) {
    if (moved.error().sys_errno() != EXDEV || depth == 0) return moved;
    return move_entries(from, name, to, new_name, depth);
  }
  if (S_ISREG(info.st_mode) || S_ISLNK(info.st_mode)) return moved;
  return sys::unlinkat(from, name);
}

Status move_aside(int parent, const std::string& name) {
  for (int i = 1; i <= kMaxAside; ++i) {
    const std::string ending = text::cat(kAside, i);
    const std::string kept = name.substr(0, size_t{NAME_MAX} - ending.size());
    Status moved = move_tree(parent, name, parent, kept + ending, kMaxDepth);
    if (moved.ok() || moved.error().code() != Errc::kExists) return moved;
  }
  return Error(Errc::kLimit, "too many things were moved aside before");
}

/// A directory that was there as it has to be.
Status open_up(int dir, const Place& step) {
  SBX_ASSIGN(const struct stat info, sys::fstat(dir));
  if (step.owner != kKeepOwner) {
    const auto id = static_cast<uid_t>(step.owner);
    if (info.st_uid != id || info.st_gid != id) SBX_TRY(sys::fchown(dir, id, id));
  }
  if ((info.st_mode & step.least) == step.least) return {};
  return sys::fchmod(dir, (info.st_mode & kModeBits) | step.least);
}

Status make(int parent, const std::string& name, const Place& step) {
  switch (step.kind) {
    case PlaceKind::kDir:
      SBX_TRY(sys::mkdirat(parent, name, step.mode));
      if (step.owner == kKeepOwner) return {};
      return sys::fchownat(parent,
                           name,
                           static_cast<uid_t>(step.owner),
                           static_cast<gid_t>(step.owner),
                           AT_SYMLINK_NOFOLLOW);
    case PlaceKind::kFile:
      if (::mknodat(parent, name.c_str(), S_IFREG | step.mode, 0) != 0) {
        return sys_error(text::cat("make file ", step.path));
      }
      return {};
    case PlaceKind::kLink:
      return sys::symlinkat(step.target, parent, name);
  }
  return Error(Errc::kInternal, "unknown kind of place");
}

bool is_right(const struct stat& info, PlaceKind kind) {
  switch (kind) {
    case PlaceKind::kDir:
      return S_ISDIR(info.st_mode);
    case PlaceKind::kFile:
      return S_ISREG(info.st_mode);
    case PlaceKind::kLink:
      return true;  // whatever somebody put there instead is theirs
  }
  return false;
}

}  // namespace

Status place(int root, const Place& step) {
  if (step.path == "/") {
    SBX_ASSIGN(const UniqueFd dir, sys::openat(root, ".", O_RDONLY | O_DIRECTORY));
    return open_up(dir.get(), step);
  }
  const std::string name = step.path.substr(step.path.rfind('/') + 1);
  SBX_ASSIGN(
      const UniqueFd parent,
      sys::openat2(root, relative(parent_of(step.path)), O_PATH | O_DIRECTORY, 0, kStrictly));
  const Result<struct stat> info = sys::fstatat(parent.get(), name, AT_SYMLINK_NOFOLLOW);
  if (info.ok()) {
    if (is_right(info.value(), step.kind)) {
      if (step.kind != PlaceKind::kDir) return {};
      SBX_ASSIGN(const UniqueFd dir,
                 sys::openat(parent.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
      return open_up(dir.get(), step);
    }
    SBX_TRY(move_aside(parent.get(), name));
  } else if (info.error().code() != Errc::kNotFound) {
    return info.error();
  }
  return make(parent.get(), name, step);
}

}  // namespace sbx::confine
