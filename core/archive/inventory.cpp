// Inventory: see inventory.h.
#include "core/archive/inventory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "core/archive/file_attributes.h"
#include "core/archive/part_file.h"
#include "core/archive/tar_reader.h"
#include "core/archive/tar_writer.h"
#include "core/archive/tree_path.h"
#include "core/base/text.h"

namespace sbx::archive {

namespace {

constexpr std::size_t kMaxBytes = std::size_t{128} << 20U;
constexpr std::size_t kItemCost = 128;

struct DirCloser {
  void operator()(DIR* dir) const { (void)::closedir(dir); }
};

struct Level {
  std::unique_ptr<DIR, DirCloser> stream;
  std::string path;
};

class Lister {
 public:
  explicit Lister(int out) : writer_(out) {}

  /// Everything below `fd`, or only the one name `only` and, beside it, unfinished files.
  Status run(UniqueFd fd, const std::string& only, const std::string& called) {
    SBX_TRY(enter(std::move(fd), ""));
    while (!levels_.empty()) {
      const bool is_top = levels_.size() == 1;
      const dirent* found = ::readdir(levels_.back().stream.get());
      if (found == nullptr) {
        levels_.pop_back();
        continue;
      }
      const std::string name = found->d_name;
      if (name == "." || name == "..") continue;
      const bool is_wanted = !is_top || only.empty() || name == only || is_part_name(name);
      if (!is_wanted) continue;
      const bool is_renamed = is_top && !only.empty() && name == only;
      SBX_TRY(visit(name, is_renamed ? called : name));
    }
    return writer_.finish();
  }

 private:
  Status enter(UniqueFd fd, std::string path) {
    Level level;
    level.stream.reset(::fdopendir(fd.get()));
    if (level.stream == nullptr) return sys_error("read a directory of the destination", errno);
    (void)fd.release();
    level.path = std::move(path);
    levels_.push_back(std::move(level));
    return {};
  }

  Status visit(const std::string& name, const std::string& called) {
    const int dirfd = ::dirfd(levels_.back().stream.get());
    const std::string& parent = levels_.back().path;
    std::string path = parent.empty() ? called : text::cat(parent, '/', called);
    struct stat info {};
    if (path.size() >= kMaxTarPath) return {};
    if (::fstatat(dirfd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return {};
    if (S_ISDIR(info.st_mode)) {
      if (levels_.size() >= kMaxTransferDepth) return {};
      Result<UniqueFd> fd = open_below(dirfd, name, O_RDONLY | O_DIRECTORY);
      return fd.ok() ? enter(std::move(fd).value(), std::move(path)) : Status();
    }
    if (!S_ISREG(info.st_mode)) return {};
    TarEntry entry;
    entry.path = std::move(path);
    entry.size = static_cast<std::uint64_t>(info.st_size);
    entry.mtime_ns = mtime_ns(info);
    entry.is_sparse = true;  // all hole: nothing of the content travels
    if (is_part_name(name)) {
      const Result<UniqueFd> part = open_part(dirfd, name);
      if (!part.ok()) return {};
      Result<std::string> digest = content_digest(part.value().get(), entry.size);
      if (!digest.ok()) return {};
      entry.digest = std::move(digest).value();
    }
    return writer_.add(entry);
  }

  TarWriter writer_;
  std::vector<Level> levels_;
};

}  // namespace

Result<Inventory> Inventory::read(int fd) {
  Inventory inventory;
  TarReader reader(fd);
  std::size_t bytes = 0;
  while (true) {
    SBX_ASSIGN(std::optional<TarEntry> entry, reader.next());
    if (!entry.has_value()) break;
    if (entry->type != TarType::kFile) continue;
    bytes += entry->path.size() + kItemCost;
    if (bytes > kMaxBytes) {
      return Error(Errc::kLimit, "too many files at the destination to go on with the copy")
          .with_hint("copy without --resume");
    }
    inventory.items_.insert_or_assign(std::move(entry->path),
                                      Item{entry->size, entry->mtime_ns, std::move(entry->digest)});
  }
  reader.drain();
  return inventory;
}

const Inventory::Item* Inventory::find(const std::string& path) const {
  const auto found = items_.find(path);
  return found == items_.end() ? nullptr : &found->second;
}

Status write_inventory(const UnpackRequest& request, int out) {
  Result<UnpackTarget> target = resolve_target(request);
  if (!target.ok()) {
    if (target.error().code() != Errc::kNotFound) return std::move(target).error();
    return TarWriter(out).finish();
  }
  const std::string& root = request.root_name;
  const std::string only = target.value().name.empty() ? root : target.value().name;
  return Lister(out).run(std::move(target.value().dir), only, root);
}

}  // namespace sbx::archive
