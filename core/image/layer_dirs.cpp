// Layer dirs: see layer_dirs.h.
#include "core/image/layer_dirs.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/layer_path.h"
#include "core/workspace/beneath.h"

namespace sbx::image {

namespace {

constexpr int kMaxLinks = 40;            // as the kernel's own limit (path_resolution(7))
constexpr std::size_t kMaxSteps = 4096;  // of one path
constexpr std::uint64_t kMaxAllSteps = 20'000'000;  // of all paths of a layer
constexpr mode_t kImpliedMode = 0755;
constexpr int kDirFlags = O_RDONLY | O_DIRECTORY;

Error no_directory(std::string_view path) {
  return Error(Errc::kDenied,
               text::cat(shown(path), ": a member below something that is no directory"));
}

/// ENOTDIR: of a link that is the last component, whose directory was wanted.
bool may_be_link(const Error& error) {
  return error.sys_errno() == ELOOP || error.sys_errno() == ENOTDIR;
}

void push_parts(std::deque<std::string>& queue, std::string_view path) {
  std::vector<std::string> parts;
  for (const std::string_view part : text::split(path, '/')) {
    if (!part.empty() && part != ".") parts.emplace_back(part);
  }
  queue.insert(queue.begin(), parts.begin(), parts.end());
}

std::string join_all(const std::vector<std::string>& parts) {
  return text::join(parts, "/");
}

}  // namespace

Status set_opaque(int dirfd) {
  if (::fsetxattr(dirfd, "user.overlay.opaque", "y", 1, 0) == 0) return {};
  return sys_error("set attribute user.overlay.opaque");
}

Status set_time(int fd, const timespec& when) {
  const std::array<timespec, 2> times{timespec{0, UTIME_OMIT}, when};
  if (::futimens(fd, times.data()) == 0) return {};
  return sys_error("set the time of a file");
}

LayerDirs::LayerDirs(UniqueFd root, std::size_t depth) : root_(std::move(root)), depth_(depth) {}

Result<UniqueFd> LayerDirs::open(std::string_view path) const {
  return workspace::open_directory(root_.get(), path);
}

Status LayerDirs::leave() {
  asked_.clear();
  path_.clear();
  const UniqueFd fd = std::move(fd_);
  if (!fd.valid() || !std::exchange(is_touched_, false)) return {};
  return set_time(fd.get(), time_);
}

Status LayerDirs::hold(UniqueFd fd, const std::string& path, const timespec& when) {
  SBX_TRY(leave());
  fd_ = std::move(fd);
  asked_ = path;
  path_ = path;
  time_ = when;
  is_touched_ = true;
  return {};
}

Status LayerDirs::set_root_time(const timespec& when) {
  SBX_TRY(leave());
  return set_time(root_.get(), when);
}

Result<int> LayerDirs::enter(std::string& path, const timespec& when) {
  if (fd_.valid() && path == asked_) {
    path = path_;
    return fd_.get();
  }
  SBX_TRY(leave());
  std::string asked = path;
  auto opened = open(path);
  if (!opened.ok() && may_be_link(opened.error())) {
    SBX_ASSIGN(path, without_links(path));
    opened = open(path);
  }
  if (!opened.ok()) {
    const int err = opened.error().sys_errno();
    if (err != ENOENT && err != ENOTDIR) return std::move(opened).error().prefixed(shown(path));
    opened = make(path, when);
    if (!opened.ok()) return std::move(opened).error();
  }
  SBX_ASSIGN(const struct stat st, sys::fstat(opened.value().get()));
  fd_ = std::move(opened).value();
  asked_ = std::move(asked);
  path_ = path;
  time_ = st.st_mtim;
  return fd_.get();
}

Result<UniqueFd> LayerDirs::find(std::string& path) {
  auto opened = open(path);
  if (opened.ok() || !may_be_link(opened.error())) return opened;
  SBX_ASSIGN(path, without_links(path));
  return open(path);
}

/// What `path` is when its links are resolved as if the layer were all there is. What is missing
/// stays as it is.
Result<std::string> LayerDirs::without_links(std::string_view path) {
  std::deque<std::string> queue;
  push_parts(queue, path);
  std::vector<std::string> done;
  int links = 0;
  for (std::size_t steps = 0; !queue.empty(); ++steps, ++link_steps_) {
    if (steps > kMaxSteps || link_steps_ > kMaxAllSteps || done.size() > depth_) {
      return Error(Errc::kLimit, text::cat(shown(path), ": too long a way through links"));
    }
    std::string part = std::move(queue.front());
    queue.pop_front();
    if (part == "..") {
      if (!done.empty()) done.pop_back();
      continue;
    }
    const auto dir = open(join_all(done));
    done.push_back(part);
    if (!dir.ok()) continue;  // not there (yet)
    const auto st = sys::fstatat(dir.value().get(), part, AT_SYMLINK_NOFOLLOW);
    if (!st.ok() || !S_ISLNK(st.value().st_mode)) continue;
    done.pop_back();
    if (++links > kMaxLinks) {
      return Error(Errc::kDenied, text::cat(shown(path), ": links that lead in a circle"));
    }
    SBX_ASSIGN(const std::string target, sys::readlinkat(dir.value().get(), part));
    if (target.starts_with('/')) done.clear();
    push_parts(queue, target);
  }
  return join_all(done);
}

Result<UniqueFd> LayerDirs::make(const std::string& path, const timespec& when) {
  UniqueFd at;
  std::string done;
  for (const std::string_view part : text::split(path, '/')) {
    const std::string name(part);
    const int dirfd = at.valid() ? at.get() : root_.get();
    done = joined(done, name);
    auto next = workspace::open_entry(dirfd, name, kDirFlags);
    if (!next.ok()) {
      const int err = next.error().sys_errno();
      if (err == ELOOP) return no_directory(path);
      if (err != ENOENT && err != ENOTDIR) return std::move(next).error().prefixed(shown(path));
      next = make_one(dirfd, done, name, when);
      if (!next.ok()) return std::move(next).error();
    }
    at = std::move(next).value();
  }
  return at;
}

Result<UniqueFd> LayerDirs::make_one(int dirfd,
                                     const std::string& path,
                                     const std::string& name,
                                     const timespec& when) {
  SBX_ASSIGN(const struct stat parent, sys::fstat(dirfd));
  const auto st = sys::fstatat(dirfd, name, AT_SYMLINK_NOFOLLOW);
  const bool is_deleted = st.ok() && workspace::is_whiteout(st.value());
  if (st.ok() && !is_deleted) return no_directory(path);
  if (is_deleted) SBX_TRY(sys::unlinkat(dirfd, name));
  SBX_TRY(sys::mkdirat(dirfd, name, kImpliedMode));
  SBX_ASSIGN(UniqueFd dir, workspace::open_entry(dirfd, name, kDirFlags));
  if (is_deleted) SBX_TRY(set_opaque(dir.get()));
  SBX_TRY(set_time(dir.get(), when));
  SBX_TRY(set_time(dirfd, parent.st_mtim));
  SBX_TRY(imply(path));
  return dir;
}

Status LayerDirs::imply(const std::string& path) {
  implied_bytes_ += path.size();
  if (implied_bytes_ > kMaxNotes) {
    return Error(Errc::kLimit, text::cat(shown(path), ": too many directories without a member"));
  }
  implied_.insert(path);
  return {};
}

Result<mode_t> LayerDirs::clear(int dirfd, const std::string& dir, const std::string& name) {
  const auto st = sys::fstatat(dirfd, name, AT_SYMLINK_NOFOLLOW);
  if (!st.ok() && st.error().code() == Errc::kNotFound) return mode_t{0};
  if (!st.ok()) return st.error();
  if (!S_ISDIR(st.value().st_mode)) {
    SBX_TRY(sys::unlinkat(dirfd, name));
    return st.value().st_mode;
  }
  SBX_TRY(fs::remove_tree(dirfd, name));
  const std::string path = joined(dir, name);
  implied_.erase(path);
  const std::string below = text::cat(path, "/");
  const std::string end = text::cat(path, "0");  // '0' follows '/'
  implied_.erase(implied_.lower_bound(below), implied_.lower_bound(end));
  return st.value().st_mode;
}

}  // namespace sbx::image
