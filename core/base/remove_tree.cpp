// Remove tree: deletes a directory tree that hostile code may have made, or may still be changing.
//
// Theory of operation
//   - One explicit stack of levels, so depth costs memory on the heap and never stack.
//   - Only the deepest kOpen levels keep a descriptor and their read position. A level above is
//     reopened as ".." of its child and must be the very directory it was (device and inode), or
//     the walk starts again from the top: somebody moved a directory under our feet.
//   - Each step down is an openat2 of one component that follows no link and enters no mount
//     (RESOLVE_NO_XDEV), so neither a link nor a mount put there meanwhile leads out of the tree.
//   - A directory that may not be read is opened by O_PATH first and given mode 0700 through that
//     descriptor: chmod by name would follow a link swapped in between.
//   - What cannot be removed is remembered by inode, so that no directory is tried for ever, and
//   the
//     first failure is reported after the rest is gone.
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::fs {
namespace {

constexpr std::size_t kOpen = 16;  // levels with a descriptor
constexpr int kMaxScans = 64;      // of one directory that somebody keeps filling
constexpr int kMaxRestarts = 16;   // of a tree that somebody keeps moving
constexpr mode_t kOwnerAll = 0700;
constexpr std::uint64_t kResolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;

struct Entry {
  const char* name;
  std::uint64_t inode;
  unsigned char type;
};

/// A directory's entries, read in pieces.
class Reader {
 public:
  /// The next entry but "." and ".."; nullopt at the end. Its name is valid until the next call.
  Result<std::optional<Entry>> next(int fd) {
    while (true) {
      if (at_ == end_) {
        const ssize_t size = ::getdents64(fd, buffer_.data(), buffer_.size());
        if (size == -1 && errno == ENOENT) return std::optional<Entry>();  // removed by another
        if (size == -1) return sys_error("read directory");
        if (size == 0) return std::optional<Entry>();
        at_ = 0;
        end_ = static_cast<std::size_t>(size);
      }
      const void* record = buffer_.data() + at_;
      const auto* entry = static_cast<const dirent64*>(record);
      at_ += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      return std::optional(Entry{entry->d_name, entry->d_ino, entry->d_type});
    }
  }

  void rewind(int fd) {
    ::lseek(fd, 0, SEEK_SET);
    at_ = end_ = 0;
  }

 private:
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  alignas(dirent64) std::array<char, 8192> buffer_{};
};

/// One directory on the way down.
struct Level {
  std::string name;  // in its parent
  std::uint64_t entry_inode = 0;
  dev_t dev = 0;
  ino_t inode = 0;
  int scans = 0;
  bool has_progress = false;
  UniqueFd fd;                                                // invalid: given up, see kOpen
  std::unique_ptr<Reader> reader;                             // with fd
  std::unique_ptr<std::unordered_set<std::uint64_t>> failed;  // inodes not to be tried again
};

enum class Walk : std::uint8_t { kDone, kRestart };
enum class Removal : std::uint8_t { kGone, kIsDirectory, kFailed };

class Remover {
 public:
  Remover(int dirfd, std::string name) : base_(dirfd), name_(std::move(name)) {}

  Status run() {
    for (int i = 0; i < kMaxRestarts; ++i) {
      first_error_.reset();
      levels_.clear();
      if (walk() == Walk::kRestart) continue;
      if (first_error_.has_value()) return *std::move(first_error_);
      return {};
    }
    return Error(Errc::kSystem, text::cat("remove ", name_, ": it keeps changing"));
  }

 private:
  Walk walk() {
    visit(base_, Entry{name_.c_str(), 0, DT_UNKNOWN});
    while (!levels_.empty()) {
      Level& level = levels_.back();
      Result<std::optional<Entry>> entry = level.reader->next(level.fd.get());
      if (!entry.ok()) note(entry.error(), level.name);
      if (entry.ok() && entry.value().has_value()) {
        visit(level.fd.get(), *entry.value());
      } else if (leave() == Walk::kRestart) {
        return Walk::kRestart;
      }
    }
    return Walk::kDone;
  }

  /// Removes one entry, or steps down into it.
  void visit(int fd, const Entry& entry) {
    if (!levels_.empty()) {
      const Level& level = levels_.back();
      if (level.failed != nullptr && level.failed->contains(entry.inode)) return;
    }
    Removal removal = remove_one(fd, entry.name, entry.type == DT_DIR);
    if (removal == Removal::kIsDirectory) {
      if (enter(fd, entry)) return;
      // Perhaps it is no directory any more.
      removal = remove_one(fd, entry.name, false);
    }
    settle(removal == Removal::kGone, entry.inode);
    if (removal == Removal::kIsDirectory) note(open_error(), entry.name);
    if (removal == Removal::kFailed) note(sys_error("remove", last_errno_), entry.name);
  }

  /// Books what became of an entry of the deepest level.
  void settle(bool is_gone, std::uint64_t inode) {
    if (levels_.empty()) return;
    Level& level = levels_.back();
    if (is_gone) {
      level.has_progress = true;
      return;
    }
    if (level.failed == nullptr) {
      level.failed = std::make_unique<std::unordered_set<std::uint64_t>>();
    }
    level.failed->insert(inode);
  }

  Removal remove_one(int fd, const char* name, bool is_directory) {
    // The type may be unknown or may have changed since it was read: one second try.
    for (int i = 0; i < 2; ++i) {
      if (::unlinkat(fd, name, is_directory ? AT_REMOVEDIR : 0) == 0) return Removal::kGone;
      last_errno_ = errno;
      if (last_errno_ == ENOENT) return Removal::kGone;
      if (is_directory && (last_errno_ == ENOTEMPTY || last_errno_ == EEXIST)) {
        return Removal::kIsDirectory;
      }
      const bool was_wrong = is_directory ? last_errno_ == ENOTDIR : last_errno_ == EISDIR;
      if (!was_wrong) return Removal::kFailed;
      is_directory = !is_directory;
    }
    return Removal::kFailed;
  }

  /// Opens a directory of the deepest level and makes it the deepest; false with last_errno_ set
  /// when that is not possible.
  bool enter(int fd, const Entry& entry) {
    UniqueFd child = open_child(fd, entry.name);
    if (!child.valid() && last_errno_ == EMFILE) {
      give_up_descriptors(levels_.empty() ? 0 : levels_.size() - 1);
      child = open_child(fd, entry.name);
    }
    if (!child.valid()) return false;
    struct stat st {};
    if (::fstat(child.get(), &st) == -1) {
      last_errno_ = errno;
      return false;
    }
    // Without write and search permission nothing in it can be removed. Best effort: root may need
    // none, and for others unlinkat will say so.
    if ((st.st_mode & kOwnerAll) != kOwnerAll) ::fchmod(child.get(), kOwnerAll);
    Level level;
    level.name = entry.name;
    level.entry_inode = entry.inode;
    level.dev = st.st_dev;
    level.inode = st.st_ino;
    level.fd = std::move(child);
    level.reader = std::make_unique<Reader>();
    if (levels_.size() >= kOpen) give_up_descriptors(levels_.size() - kOpen + 1);
    levels_.push_back(std::move(level));
    return true;
  }

  /// Closes the descriptors of the `count` levels nearest to the top.
  void give_up_descriptors(std::size_t count) {
    // The closed ones are the first ones: going up reopens one level at a time.
    for (std::size_t i = std::min(count, levels_.size()); i > 0; --i) {
      Level& level = levels_[i - 1];
      if (!level.fd.valid()) break;
      level.fd.reset();
      level.reader.reset();
    }
  }

  UniqueFd open_child(int fd, const char* name) {
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
    UniqueFd child = open_one(fd, name, kFlags);
    if (child.valid() || last_errno_ != EACCES) return child;
    const UniqueFd path = open_one(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (!path.valid()) return {};
    if (!make_accessible(path.get())) {
      last_errno_ = EACCES;
      return {};
    }
    return open_one(fd, name, kFlags);
  }

  UniqueFd open_one(int fd, const char* name, int flags) {
    Result<UniqueFd> opened = sys::openat2(fd, name, static_cast<unsigned>(flags), 0, kResolve);
    if (opened.ok()) return std::move(opened).value();
    last_errno_ = opened.error().sys_errno();
    return {};
  }

  /// chmod of what an O_PATH descriptor refers to.
  static bool make_accessible(int path_fd) {
    constexpr long kFchmodat2 = 452;  // Linux 6.6; the number is the same on all architectures
    if (::syscall(kFchmodat2, path_fd, "", kOwnerAll, AT_EMPTY_PATH) == 0) return true;
    return ::chmod(text::cat("/proc/self/fd/", path_fd).c_str(), kOwnerAll) == 0;
  }

  /// Ends the deepest level: removes it from its parent, or reads it once more when it is not
  /// empty.
  Walk leave() {
    Level& level = levels_.back();
    const std::optional<int> parent = parent_fd();
    if (!parent.has_value()) return Walk::kRestart;
    const bool is_gone =
        ::unlinkat(*parent, level.name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
    last_errno_ = errno;
    if (!is_gone && last_errno_ == ENOTEMPTY && level.has_progress && level.scans < kMaxScans) {
      ++level.scans;
      level.has_progress = false;
      level.reader->rewind(level.fd.get());
      return Walk::kDone;
    }
    if (!is_gone) note(sys_error("remove", last_errno_), level.name);
    const std::uint64_t inode = level.entry_inode;
    levels_.pop_back();
    settle(is_gone, inode);
    return Walk::kDone;
  }

  /// The descriptor of the deepest level's parent, reopened when it was given up; nullopt when the
  /// parent is not the one it was.
  std::optional<int> parent_fd() {
    if (levels_.size() == 1) return base_;
    Level& parent = levels_[levels_.size() - 2];
    if (parent.fd.valid()) return parent.fd.get();
    const Level& level = levels_.back();
    UniqueFd opened(
        ::openat(level.fd.get(), "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat st {};
    if (!opened.valid() || ::fstat(opened.get(), &st) == -1) return std::nullopt;
    if (st.st_dev != parent.dev || st.st_ino != parent.inode) return std::nullopt;
    parent.fd = std::move(opened);
    parent.reader = std::make_unique<Reader>();
    return parent.fd.get();
  }

  Error open_error() const {
    if (last_errno_ == EXDEV) return {Errc::kDenied, "something is mounted there"};
    return sys_error("open", last_errno_);
  }

  void note(Error error, const std::string& leaf) {
    if (first_error_.has_value()) return;
    const std::string where = leaf == name_ ? name_ : text::cat(name_, "/.../", leaf);
    first_error_ = std::move(error).prefixed(text::cat("remove ", where));
  }

  int base_;
  std::string name_;
  std::vector<Level> levels_;
  std::optional<Error> first_error_;
  int last_errno_ = 0;
};

}  // namespace

Status remove_tree(int dirfd, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    return Error(Errc::kInternal, text::cat("remove tree '", name, "': not a single name"));
  }
  return Remover(dirfd, name).run();
}

}  // namespace sbx::fs
