// Artifact tree: temporary file, content with its holes, times, rename - for each file.
#include "core/run/artifact_tree.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/scope_exit.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/artifact_file.h"

namespace sbx::run {

namespace {

constexpr std::size_t kChunk = std::size_t{256} << 10U;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// "a/b/c" -> "a/b" and "c".
std::pair<std::string, std::string> split_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

class TreeWriter {
 public:
  TreeWriter(int dest, const ArtifactRequest& request) : dest_(dest), request_(request) {
    buffer_.resize(kChunk);
  }

  Status write(Artifact& item, const ArtifactList& list) {
    const std::string& path = item.saved_as.empty() ? item.path : item.saved_as;
    const auto [parent, name] = split_path(path);
    if (item.type == ArtifactType::kDirectory) {
      SBX_TRY(enter(parent));
      return make_directory(name, item);
    }
    if (item.type != ArtifactType::kFile || !item.skipped.empty()) return {};
    SBX_TRY(enter(parent));
    return item.link.empty() ? copy(item, name) : link(item, name, list);
  }

  /// Renames it from the source tree, where it has its final name already.
  Status move(const Artifact& item) {
    const std::string& path = item.saved_as.empty() ? item.path : item.saved_as;
    const auto [parent, name] = split_path(path);
    const bool is_directory = item.type == ArtifactType::kDirectory;
    if (!is_directory && (item.type != ArtifactType::kFile || !item.skipped.empty())) return {};
    SBX_TRY(enter(parent));
    if (is_directory) return make_directory(name, item);
    Status moved = sys::renameat(request_.work_dir, path, parent_fd_.get(), name);
    if (moved.ok() || moved.error().sys_errno() != EXDEV) return moved;
    Artifact again = item;
    again.path = path;
    return copy(again, name);
  }

 private:
  /// Makes `parent_fd_` the directory `path` below the destination; its making came before.
  Status enter(const std::string& path) {
    if (parent_fd_.valid() && path == parent_) return {};
    auto opened = sys::openat2(dest_,
                               path.empty() ? "." : path,
                               O_RDONLY | O_DIRECTORY,
                               0,
                               RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (!opened.ok()) {
      const int err = opened.error().sys_errno();
      Error error = std::move(opened).error().prefixed("output directory");
      if (err != ELOOP && err != ENOTDIR) return error;
      return std::move(error).with_hint(
          text::cat("remove ", path, " there: an artifact needs a directory of this name"));
    }
    parent_fd_ = std::move(opened).value();
    parent_ = path;
    return {};
  }

  Status make_directory(const std::string& name, const Artifact& item) {
    Status made = sys::mkdirat(parent_fd_.get(), name, (item.mode & 0777U) | S_IRWXU);
    if (!made.ok() && made.error().code() != Errc::kExists) return made;
    return {};
  }

  /// A temporary file with the content; renamed by the caller.
  Status copy(Artifact& item, const std::string& name) {
    auto source = ArtifactFile::open(request_.work_dir, item.path);
    if (!source.ok()) {
      item.skipped = source.error().message();
      return {};
    }
    const std::string temp = text::cat(".sbx-", fs::random_name(12));
    SBX_ASSIGN(const UniqueFd out,
               sys::openat(parent_fd_.get(),
                           temp,
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                           (item.mode & 0777U) | S_IRUSR));
    ScopeExit undo([&] { static_cast<void>(sys::unlinkat(parent_fd_.get(), temp)); });
    std::uint64_t at = 0;
    for (;;) {
      if (request_.should_stop && request_.should_stop()) return sys_error("copy artifacts", EINTR);
      SBX_ASSIGN(const ArtifactFile::Piece piece, source.value().next(buffer_));
      if (piece.size == 0) break;
      if (!piece.is_hole) SBX_TRY(write_at(out.get(), at, piece.size, item.path));
      at += piece.size;
    }
    SBX_TRY(sys::ftruncate(out.get(), Bytes{at}));
    set_time(out.get(), item.mtime_ns);
    SBX_TRY(sys::renameat(parent_fd_.get(), temp, parent_fd_.get(), name));
    undo.cancel();
    item.bytes = at;
    item.sha256 = source.value().sha256();
    item.mime = source.value().mime(item.path);
    return {};
  }

  Status write_at(int fd, std::uint64_t at, std::size_t size, const std::string& path) {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t n =
          ::pwrite(fd, buffer_.data() + done, size - done, static_cast<off_t>(at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return sys_error(text::cat("write artifact ", path));
      done += static_cast<std::size_t>(n);
    }
    return {};
  }

  static void set_time(int fd, std::int64_t mtime_ns) {
    std::int64_t seconds = mtime_ns / kNsPerSecond;
    std::int64_t rest = mtime_ns % kNsPerSecond;
    if (rest < 0) {
      rest += kNsPerSecond;
      seconds -= 1;
    }
    const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                               {.tv_sec = seconds, .tv_nsec = rest}};
    static_cast<void>(::futimens(fd, times));  // a file system without such times is no failure
  }

  /// Another name for an artifact that was written before; a copy where links are not possible.
  Status link(Artifact& item, const std::string& name, const ArtifactList& list) {
    const auto original =
        std::lower_bound(list.items.begin(),
                         list.items.end(),
                         item.link,
                         [](const Artifact& a, const std::string& path) { return a.path < path; });
    if (!original->skipped.empty()) {
      item.skipped = original->skipped;
      return {};
    }
    const std::string& from = original->saved_as.empty() ? original->path : original->saved_as;
    const std::string temp = text::cat(".sbx-", fs::random_name(12));
    if (::linkat(dest_, from.c_str(), parent_fd_.get(), temp.c_str(), 0) != 0) {
      return copy(item, name);
    }
    ScopeExit undo([&] { static_cast<void>(sys::unlinkat(parent_fd_.get(), temp)); });
    SBX_TRY(sys::renameat(parent_fd_.get(), temp, parent_fd_.get(), name));
    undo.cancel();
    item.bytes = original->bytes;
    item.sha256 = original->sha256;
    item.mime = original->mime;
    return {};
  }

  int dest_;
  const ArtifactRequest& request_;
  std::string parent_;
  UniqueFd parent_fd_;
  std::vector<std::byte> buffer_;
};

}  // namespace

void reserve_manifest_name(ArtifactList& list) {
  const auto is_taken = [&](const std::string& path) {
    return std::any_of(list.items.begin(), list.items.end(), [&](const Artifact& item) {
      return item.path == path;
    });
  };
  const std::string below = text::cat(kManifestName, '/');
  std::string instead;
  for (Artifact& item : list.items) {
    const bool is_named_so = item.path == kManifestName && (item.type == ArtifactType::kFile ||
                                                            item.type == ArtifactType::kDirectory);
    if (is_named_so) {
      instead = "manifest.json.artifact";
      while (is_taken(instead)) {
        instead += '_';
      }
      list.warnings.push_back(text::cat("the program's own manifest.json is saved as ", instead));
    } else if (!item.path.starts_with(below)) {
      continue;
    }
    // Behind a link of this name there is nothing, so what is below stands in a directory.
    item.saved_as = text::cat(instead, item.path.substr(std::string_view(kManifestName).size()));
  }
}

Status write_files(int dest, const ArtifactRequest& request, ArtifactList& list) {
  TreeWriter writer(dest, request);
  for (Artifact& item : list.items) {
    SBX_TRY(writer.write(item, list));
  }
  return {};
}

Status write_manifest(int dest, const ArtifactList& list) {
  constexpr mode_t kMode = 0644;
  return fs::write_atomic(dest, kManifestName, manifest_json(list), kMode);
}

Status write_tree(int dest, const ArtifactRequest& request, ArtifactList& list) {
  SBX_TRY(write_files(dest, request, list));
  return write_manifest(dest, list);
}

Status move_files(int from, int dest, const ArtifactList& list) {
  ArtifactRequest request;
  request.work_dir = from;
  TreeWriter writer(dest, request);
  for (const Artifact& item : list.items) {
    SBX_TRY(writer.move(item));
  }
  return {};
}

}  // namespace sbx::run
