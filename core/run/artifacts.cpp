// Artifacts: the walk over what a program left, and its digests.
#include "core/run/artifacts.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/artifact_file.h"

namespace sbx::run {

namespace {

constexpr std::size_t kLongestPath = 4095;  // openat2(2) takes no more (PATH_MAX with its NUL)
constexpr std::size_t kChunk = std::size_t{256} << 10U;

struct Found {
  Artifact item;
  ino_t inode = 0;
  bool has_other_links = false;
};

ArtifactType type_of(mode_t mode) {
  if (S_ISREG(mode)) return ArtifactType::kFile;
  if (S_ISDIR(mode)) return ArtifactType::kDirectory;
  if (S_ISLNK(mode)) return ArtifactType::kSymlink;
  if (S_ISFIFO(mode)) return ArtifactType::kFifo;
  if (S_ISSOCK(mode)) return ArtifactType::kSocket;
  return ArtifactType::kDevice;
}

struct DirCloser {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

class Walk {
 public:
  explicit Walk(const ArtifactRequest& request) : request_(request) {}

  Result<ArtifactList> run() {
    SBX_ASSIGN(const struct stat root, sys::fstat(request_.work_dir));
    device_ = root.st_dev;
    // Directories are opened by their path from the top, so that neither the stack nor the number
    // of descriptors grows with the depth of the tree.
    std::vector<std::string> todo{""};
    while (!todo.empty() && list_.is_complete) {
      const std::string dir = std::move(todo.back());
      todo.pop_back();
      SBX_TRY(read_directory(dir, todo));
    }
    finish();
    return std::move(list_);
  }

 private:
  Status read_directory(const std::string& dir, std::vector<std::string>& todo) {
    if (request_.should_stop && request_.should_stop()) {
      return sys_error("list artifacts", EINTR);
    }
    auto opened = open_artifact(request_.work_dir, dir.empty() ? "." : dir, S_IFDIR);
    if (!opened.ok()) {
      if (opened.error().sys_errno() == EXDEV) return {};  // something mounted there: no artifact
      leave_out(text::cat("directory ", dir, " cannot be read: ", opened.error().message()));
      return {};
    }
    const int fd = opened.value().release();
    const std::unique_ptr<DIR, DirCloser> stream(::fdopendir(fd));
    if (!stream) return sys_error(text::cat("read directory ", dir));
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(stream.get());
      if (entry == nullptr) {
        return errno == 0 ? Status() : sys_error(text::cat("read directory ", dir));
      }
      const std::string name(static_cast<const char*>(entry->d_name));
      if (name == "." || name == "..") continue;
      if (!add(fd, dir.empty() ? name : text::cat(dir, '/', name), name, todo)) return {};
    }
  }

  /// False when the bounds are reached and the walk is over.
  bool add(int dirfd, std::string path, const std::string& name, std::vector<std::string>& todo) {
    if (std::find(request_.inputs.begin(), request_.inputs.end(), path) != request_.inputs.end()) {
      return true;
    }
    const auto looked = sys::fstatat(dirfd, name, AT_SYMLINK_NOFOLLOW);
    if (!looked.ok() || looked.value().st_dev != device_) return true;
    const struct stat& st = looked.value();
    path_bytes_ += path.size();
    if (found_.size() >= request_.limits.entries || path_bytes_ > request_.limits.path_bytes.v) {
      leave_out(text::cat("more than ", found_.size(), " entries: the rest is left out"));
      list_.is_complete = false;
      return false;
    }
    if (path.size() > kLongestPath) {
      leave_out(text::cat("too deep, left out: ", path.substr(0, 40), "..."));
      return true;
    }
    Found found;
    found.item.type = type_of(st.st_mode);
    found.item.mode = st.st_mode & 07777U;
    found.item.mtime_ns = st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec;
    if (found.item.type == ArtifactType::kFile) {
      note_file(st, found);
    } else if (found.item.type == ArtifactType::kSymlink) {
      auto target = sys::readlinkat(dirfd, name);
      if (target.ok()) found.item.link = std::move(target).value();
    } else if (found.item.type == ArtifactType::kDirectory) {
      todo.push_back(path);
    }
    found.item.path = std::move(path);
    found_.push_back(std::move(found));
    return true;
  }

  void note_file(const struct stat& st, Found& found) {
    constexpr std::uint64_t kBlock = 512;
    constexpr std::uint64_t kNotableHole = std::uint64_t{1} << 20U;
    found.item.bytes = static_cast<std::uint64_t>(st.st_size);
    found.inode = st.st_ino;
    found.has_other_links = st.st_nlink > 1;
    if (found.item.bytes > request_.limits.file.v) {
      found.item.skipped = text::cat("larger than ", to_string(request_.limits.file));
      return;
    }
    if (static_cast<std::uint64_t>(st.st_blocks) * kBlock + kNotableHole <= found.item.bytes) {
      list_.has_holes = true;
    }
  }

  /// Sorts, finds hard links to earlier files, and applies the bound on the sum.
  void finish() {
    std::sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
      return a.item.path < b.item.path;
    });
    std::map<ino_t, std::string> first_path;
    std::uint64_t total = 0;
    for (Found& found : found_) {
      Artifact& item = found.item;
      if (item.type == ArtifactType::kFile && item.skipped.empty()) {
        if (found.has_other_links) {
          const auto [at, is_first] = first_path.try_emplace(found.inode, item.path);
          if (!is_first) item.link = at->second;
        }
        if (item.link.empty() && item.bytes > request_.limits.total.v - total) {
          item.skipped = text::cat("all together more than ", to_string(request_.limits.total));
          first_path.erase(found.inode);
        } else if (item.link.empty()) {
          total += item.bytes;
        }
      }
      if (!item.skipped.empty()) leave_out(text::cat("left out: ", item.path, ": ", item.skipped));
      list_.items.push_back(std::move(item));
    }
  }

  void leave_out(std::string warning) {
    constexpr std::size_t kMost = 20;
    if (list_.warnings.size() < kMost) list_.warnings.push_back(std::move(warning));
  }

  const ArtifactRequest& request_;
  dev_t device_ = 0;
  std::uint64_t path_bytes_ = 0;
  std::vector<Found> found_;
  ArtifactList list_;
};

}  // namespace

std::string_view name(ArtifactType type) {
  switch (type) {
    case ArtifactType::kFile:
      return "file";
    case ArtifactType::kDirectory:
      return "directory";
    case ArtifactType::kSymlink:
      return "symlink";
    case ArtifactType::kFifo:
      return "fifo";
    case ArtifactType::kSocket:
      return "socket";
    case ArtifactType::kDevice:
      return "device";
  }
  return "unknown";
}

Result<ArtifactList> find_artifacts(const ArtifactRequest& request) {
  return Walk(request).run();
}

Status hash_artifacts(const ArtifactRequest& request, ArtifactList& list) {
  std::vector<std::byte> buffer(kChunk);
  for (Artifact& item : list.items) {
    if (item.type != ArtifactType::kFile || !item.skipped.empty()) continue;
    if (!item.link.empty()) {
      const auto original = std::lower_bound(
          list.items.begin(),
          list.items.end(),
          item.link,
          [](const Artifact& a, const std::string& path) { return a.path < path; });
      item.sha256 = original->sha256;
      item.mime = original->mime;
      item.skipped = original->skipped;
      continue;
    }
    auto file = ArtifactFile::open(request.work_dir, item.path);
    if (!file.ok()) {
      item.skipped = file.error().message();
      list.warnings.push_back(text::cat("left out: ", item.path, ": ", item.skipped));
      continue;
    }
    for (;;) {
      if (request.should_stop && request.should_stop()) return sys_error("read artifacts", EINTR);
      SBX_ASSIGN(const ArtifactFile::Piece piece, file.value().next(buffer));
      if (piece.size == 0) break;
    }
    item.bytes = file.value().size();
    item.sha256 = file.value().sha256();
    item.mime = file.value().mime(item.path);
  }
  return {};
}

std::vector<std::string> missing_required(const ArtifactList& list,
                                          std::span<const std::string> globs) {
  std::vector<std::string> missing;
  for (const std::string& glob : globs) {
    const bool has_match =
        std::any_of(list.items.begin(), list.items.end(), [&](const Artifact& item) {
          return item.type == ArtifactType::kFile && item.skipped.empty() &&
                 ::fnmatch(glob.c_str(), item.path.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
        });
    if (!has_match) missing.push_back(glob);
  }
  return missing;
}

}  // namespace sbx::run
