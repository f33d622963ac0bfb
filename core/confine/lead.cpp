// Lead: see lead.h.
//
// Theory of operation. The way is gone by hand, one name after the other, from descriptor to
// descriptor: what the kernel would follow (RESOLVE_IN_ROOT) tells nobody where it came to, and
// that has to be known, because places of the sandbox itself must not be mounted over.
#include "core/confine/lead.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <climits>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"

namespace sbx::confine {

namespace {

constexpr int kMaxLinks = 40;  // as the kernel
constexpr mode_t kNewDir = 0755;
constexpr mode_t kNewFile = S_IFREG | 0444;

/// Places that the sandbox makes itself, and trees of which nothing may be covered.
constexpr auto kOwn =
    std::to_array<std::string_view>({"/", "/dev/shm", "/etc", "/run/sbx", "/tmp", "/work"});
constexpr auto kOwnTrees = std::to_array<std::string_view>({"/dev", "/proc", "/sys"});

bool is_own(const std::string& path) {
  if (std::find(kOwn.begin(), kOwn.end(), path) != kOwn.end()) return true;
  if (path.starts_with("/dev/shm/")) return false;
  return std::any_of(kOwnTrees.begin(), kOwnTrees.end(), [&path](std::string_view tree) {
    return path == tree || (path.starts_with(tree) && path[tree.size()] == '/');
  });
}

class Walk {
 public:
  Walk(int root, int scratch, const Lead& step) : root_(root), scratch_(scratch), step_(step) {}

  Result<std::string> go() {
    SBX_ASSIGN(const struct stat root, sys::fstat(root_));
    devices_.push_back(root.st_dev);
    if (scratch_ >= 0) {
      SBX_ASSIGN(const struct stat scratch, sys::fstat(scratch_));
      devices_.push_back(scratch.st_dev);
    }
    SBX_TRY(put_in_front(step_.path));
    while (!todo_.empty()) {
      const std::string name = std::move(todo_.front());
      todo_.pop_front();
      if (name == "..") {
        if (!way_.empty()) way_.pop_back();
        continue;
      }
      SBX_TRY(enter(name));
    }
    std::string found = text_of_way();
    if (is_own(found)) {
      return Error(Errc::kUsage,
                   text::cat("the image leads ",
                             text::escape(step_.path),
                             " to ",
                             text::escape(found),
                             ", which belongs to the sandbox"))
          .with_hint("choose another target, for example /data");
    }
    return found;
  }

 private:
  struct Part {
    std::string name;
    UniqueFd dir;  ///< invalid: a file, the end of the way
  };

  int here() const { return way_.empty() ? root_ : way_.back().dir.get(); }

  std::string text_of_way() const {
    std::string text;
    for (const Part& part : way_) {
      text += text::cat("/", part.name);
    }
    return text.empty() ? "/" : text;
  }

  Error in_the_way(const std::string& name) const {
    return Error(Errc::kUsage,
                 text::cat(text::escape(step_.path),
                           ": the image has something else at ",
                           text::escape(text::cat(way_.empty() ? "" : text_of_way(), "/", name))));
  }

  Status put_in_front(const std::string& path) {
    if (path.starts_with('/')) way_.clear();
    std::deque<std::string> names;
    for (const std::string_view name : text::split(path, '/')) {
      if (!name.empty() && name != ".") names.emplace_back(name);
    }
    todo_.insert(todo_.begin(), names.begin(), names.end());
    if (todo_.size() > size_t{PATH_MAX}) return sys_error(step_.path, ENAMETOOLONG);
    return {};
  }

  Status enter(const std::string& name) {
    if (!way_.empty() && !way_.back().dir.valid()) return in_the_way(name);
    auto info = sys::fstatat(here(), name, AT_SYMLINK_NOFOLLOW);
    if (!info.ok()) {
      if (info.error().code() != Errc::kNotFound) return std::move(info).error();
      SBX_TRY(make(name));
      info = sys::fstatat(here(), name, AT_SYMLINK_NOFOLLOW);
      if (!info.ok()) return std::move(info).error();
    }
    const mode_t mode = info.value().st_mode;
    if (S_ISLNK(mode)) {
      if (++links_ > kMaxLinks) return sys_error(text::cat("follow ", step_.path), ELOOP);
      SBX_ASSIGN(const std::string target, sys::readlinkat(here(), name));
      return put_in_front(target);
    }
    const bool is_last = todo_.empty();
    if (S_ISDIR(mode) && !(is_last && step_.kind == PlaceKind::kFile)) {
      SBX_ASSIGN(UniqueFd dir, sys::openat(here(), name, O_PATH | O_DIRECTORY | O_NOFOLLOW));
      way_.push_back({name, std::move(dir)});
      return {};
    }
    if (is_last && step_.kind == PlaceKind::kFile && S_ISREG(mode)) {
      way_.push_back({name, {}});
      return {};
    }
    return in_the_way(name);
  }

  Status make(const std::string& name) {
    SBX_ASSIGN(const struct stat parent, sys::fstat(here()));
    if (std::find(devices_.begin(), devices_.end(), parent.st_dev) == devices_.end()) {
      return Error(Errc::kUsage,
                   text::cat(text::escape(step_.path), " would have to be made in a host's tree"));
    }
    if (!todo_.empty() || step_.kind == PlaceKind::kDir) {
      return sys::mkdirat(here(), name, kNewDir);
    }
    if (::mknodat(here(), name.c_str(), kNewFile, 0) != 0) {
      return sys_error(text::cat("make file ", step_.path));
    }
    return {};
  }

  int root_;
  int scratch_;
  const Lead& step_;
  std::vector<dev_t> devices_;
  std::vector<Part> way_;
  std::deque<std::string> todo_;
  int links_ = 0;
};

}  // namespace

Result<std::string> lead(int root, int scratch, const Lead& step) {
  return Walk(root, scratch, step).go();
}

}  // namespace sbx::confine
