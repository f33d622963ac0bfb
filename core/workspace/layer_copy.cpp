// Layer copy: a walk over the stored tree with a list of directories to come, in place of
// recursion.
#include "core/workspace/layer_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <map>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/workspace/beneath.h"
#include "core/workspace/layer_store.h"

namespace sbx::workspace {
namespace {

constexpr const char* kSince = "since";
constexpr std::size_t kMaxLinked = std::size_t{4} << 20U;  // files of several names

bool is_gone(const Error& error) {
  return error.sys_errno() == ENOENT;
}

class TreeCopier {
 public:
  TreeCopier(int from, int to, const OnProgress& progress)
      : from_(from), to_(to), to_parent_(to), progress_(progress) {}

  Status run() {
    pending_.push_back({"", false});
    while (!pending_.empty()) {
      const Pending next = std::move(pending_.back());
      pending_.pop_back();
      SBX_TRY(next.is_left ? leave(next.path) : enter(next.path));
    }
    return {};
  }

  CopyReport report() const {
    CopyReport report;
    report.bytes = bytes_;
    report.files = files_;
    report.reflinked = !has_copied_;
    return report;
  }

 private:
  struct Pending {
    std::string path;
    bool is_left = false;  // its content is copied: only its own metadata is to be set
  };

  Status enter(const std::string& path) {
    const Result<int> dir = from_.open(path);
    if (!dir.ok() && is_gone(dir.error())) return {};
    if (!dir.ok()) return dir.error();
    SBX_ASSIGN(const int copy, to_.open(path));
    pending_.push_back({path, true});
    SBX_ASSIGN(const std::vector<std::string> names, read_names(dir.value()));
    for (const std::string& name : names) {
      Status copied = copy_entry(dir.value(), copy, path, name);
      if (!copied.ok()) return std::move(copied).error().prefixed(join_path(path, name));
    }
    return {};
  }

  /// The times of a directory are right only when nothing is made in it any more.
  Status leave(const std::string& path) {
    const Result<int> dir = from_.open(path);
    if (!dir.ok() && is_gone(dir.error())) return {};
    if (!dir.ok()) return dir.error();
    SBX_ASSIGN(const struct stat st, sys::fstat(dir.value()));
    SBX_ASSIGN(const int copy, to_.open(path));
    return copy_metadata(dir.value(), copy, st, Attributes::kAll);
  }

  Status copy_entry(int dir, int copy, const std::string& path, const std::string& name) {
    const Result<struct stat> found = sys::fstatat(dir, name, AT_SYMLINK_NOFOLLOW);
    if (!found.ok() && is_gone(found.error())) return {};
    if (!found.ok()) return found.error();
    const struct stat& st = found.value();
    if (S_ISDIR(st.st_mode)) {
      pending_.push_back({join_path(path, name), false});
      return sys::mkdirat(copy, name, S_IRWXU);
    }
    const bool is_linked = st.st_nlink > 1 && !is_whiteout(st);
    if (is_linked) {
      const auto first = linked_.find(st.st_ino);
      if (first != linked_.end()) return link(first->second, copy, name);
    }
    SBX_ASSIGN(const bool is_made, copy_object(dir, copy, name, st));
    if (!is_made) return {};
    if (is_linked) {
      if (linked_.size() >= kMaxLinked) return Error(Errc::kLimit, "too many hard links");
      linked_.emplace(st.st_ino, join_path(path, name));
    }
    if (!is_whiteout(st)) ++files_;
    return tell();
  }

  /// False when it is gone.
  Result<bool> copy_object(int dir, int copy, const std::string& name, const struct stat& st) {
    if (S_ISREG(st.st_mode)) return copy_regular(dir, copy, name);
    if (S_ISLNK(st.st_mode)) {
      const Result<std::string> target = sys::readlinkat(dir, name);
      if (!target.ok() && is_gone(target.error())) return false;
      if (!target.ok()) return target.error();
      SBX_TRY(sys::symlinkat(target.value(), copy, name));
    } else if (::mknodat(copy, name.c_str(), st.st_mode & ~07777U, st.st_rdev) == -1) {
      return sys_error("make node");
    }
    SBX_TRY(copy_metadata_at(copy, name, st));
    return true;
  }

  Result<bool> copy_regular(int dir, int copy, const std::string& name) {
    const Result<UniqueFd> in = open_regular(dir, name);
    if (!in.ok() && is_gone(in.error())) return false;
    if (!in.ok()) return in.error();
    SBX_ASSIGN(const struct stat st, sys::fstat(in.value().get()));
    SBX_ASSIGN(
        const UniqueFd out,
        sys::openat(copy, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, S_IRUSR | S_IWUSR));
    const OnBytes count = [this](std::uint64_t bytes) {
      bytes_ += bytes;
      return tell();
    };
    SBX_ASSIGN(
        const ContentCopy done,
        copy_content(
            in.value().get(), out.get(), static_cast<std::uint64_t>(st.st_size), reflink_, count));
    if (done.bytes > 0 && !done.reflinked) has_copied_ = true;
    SBX_TRY(copy_metadata(in.value().get(), out.get(), st, Attributes::kAll));
    return true;
  }

  Status link(const std::string& first, int copy, const std::string& name) {
    const auto [parent, leaf] = split_path(first);
    SBX_ASSIGN(const int dir, to_parent_.open(parent));
    if (::linkat(dir, leaf.c_str(), copy, name.c_str(), 0) == -1) return sys_error("link");
    return {};
  }

  Status tell() {
    if (!progress_) return {};
    return progress_({bytes_, files_});
  }

  DirCursor from_;
  DirCursor to_;
  DirCursor to_parent_;  // of the first name of a linked file
  const OnProgress& progress_;
  std::vector<Pending> pending_;
  std::map<ino_t, std::string> linked_;
  Reflink reflink_ = Reflink::kTry;
  bool has_copied_ = false;
  std::uint64_t bytes_ = 0;
  std::uint64_t files_ = 0;
};

/// When a directory was made; when that is not known, when it last changed its place.
std::int64_t birth_of(int fd) {
  struct statx stx {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_BTIME | STATX_CTIME, &stx) == -1) return 0;
  const statx_timestamp& time = (stx.stx_mask & STATX_BTIME) != 0 ? stx.stx_btime : stx.stx_ctime;
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Result<CopyReport> copy_layer(int layers,
                              const std::string& from,
                              const OnProgress& progress,
                              const OnCopied& copied) {
  SBX_ASSIGN(const UniqueFd source, open_layer(layers, from));
  SBX_ASSIGN(NewLayer layer, NewLayer::begin(layers));
  SBX_TRY(sys::mkdirat(layer.fd(), "fs", S_IRWXU));
  SBX_ASSIGN(const UniqueFd content, open_entry(layer.fd(), "fs", O_RDONLY | O_DIRECTORY));
  TreeCopier copier(source.get(), content.get(), progress);
  if (Status done = copier.run(); !done.ok()) {
    return std::move(done).error().prefixed(text::cat("copy layer ", from));
  }
  if (copied) copied();
  const std::int64_t since = layer_since(layers, from);
  SBX_TRY(write_layer_since(layer.fd(), since != 0 ? since : birth_of(source.get())));
  if (::syncfs(content.get()) == -1) return sys_error("sync the copied layer");
  CopyReport report = copier.report();
  SBX_ASSIGN(report.id, layer.publish());
  return report;
}

std::int64_t layer_since(int layers, const std::string& id) {
  if (!is_layer_id(id)) return 0;
  const auto text = fs::read_file_at(layers, text::cat(id, "/", kSince), Bytes{64});
  std::int64_t ns = 0;
  if (!text.ok()) return 0;
  const std::string& digits = text.value();
  std::from_chars(digits.data(), digits.data() + digits.size(), ns);
  return ns;
}

Status write_layer_since(int layer, std::int64_t ns) {
  if (ns == 0) return {};
  return fs::write_atomic(layer, kSince, text::cat(ns, "\n"), 0644);
}

}  // namespace sbx::workspace
