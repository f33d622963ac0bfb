// Export: a walk over the merged trees in the order of names, each object to the archive at once.
#include "core/workspace/export.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "core/archive/pack_file.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/workspace/beneath.h"

namespace sbx::workspace {
namespace {

constexpr std::size_t kMaxNoted = 20;
constexpr std::size_t kMaxLinked = std::size_t{4} << 20U;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

bool is_gone(const Error& error) {
  const int err = error.sys_errno();
  return err == ENOENT || err == ENOTDIR || err == ELOOP;
}

bool is_at_or_below(std::string_view path, std::string_view dir) {
  if (dir.empty() || path == dir) return true;
  return path.starts_with(dir) && path[dir.size()] == '/';
}

/// Gives exactly `size` bytes: zeros where the file has got shorter.
class SteadyReader {
 public:
  SteadyReader(int fd, std::uint64_t size) : fd_(fd), size_(size) {}

  Result<std::size_t> read(std::span<std::byte> buffer) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), size_ - at_));
    if (want == 0) return std::size_t{0};
    ssize_t n = -1;
    do {
      n = ::pread(fd_, buffer.data(), want, static_cast<off64_t>(at_));
    } while (n == -1 && errno == EINTR);
    if (n == -1) return sys_error("read content");
    if (n == 0) {
      is_short_ = true;
      std::memset(buffer.data(), 0, want);
      n = static_cast<ssize_t>(want);
    }
    at_ += static_cast<std::uint64_t>(n);
    return static_cast<std::size_t>(n);
  }
  bool is_short() const { return is_short_; }

 private:
  int fd_;
  std::uint64_t size_;
  std::uint64_t at_ = 0;
  bool is_short_ = false;
};

class Exporter {
 public:
  Exporter(std::span<const MountedTree> trees, archive::ArchiveWriter& writer)
      : trees_(trees), writer_(writer) {}

  Result<ExportReport> run(const std::string& path) {
    const MountedTree* mounted = tree_at(path);
    if (mounted == nullptr) return not_found(path);
    std::string below = path.substr(mounted->target.size());
    if (below.starts_with('/')) below.erase(0, 1);
    SBX_ASSIGN(const std::optional<MergedTree::Place> place, mounted->tree->find(below));
    if (!place.has_value()) return not_found(path);
    if (!place->entry.is_dir()) {
      SBX_TRY(add(*mounted, place->parent, place->entry, place->entry.name));
      return std::move(report_);
    }
    base_ = path;
    const MergedDir dir =
        below.empty() ? mounted->tree->root() : MergedTree::enter(place->parent, place->entry);
    SBX_TRY(enter(*mounted, dir));
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (frame.next == frame.names.size()) {
        held_ -= frame.names.size();
        frames_.pop_back();
        continue;
      }
      const std::string name = std::move(frame.names[frame.next++]);
      const MergedDir at = frame.dir;
      SBX_TRY(visit(*frame.mounted, at, name));
    }
    return std::move(report_);
  }

 private:
  struct Frame {
    const MountedTree* mounted;
    MergedDir dir;
    std::vector<std::string> names;
    std::size_t next = 0;
  };

  static Error not_found(const std::string& path) {
    return {Errc::kNotFound, text::cat("/", path, ": there is no such file in the session")};
  }

  /// The tree that `path` is in: the one with the longest target.
  const MountedTree* tree_at(std::string_view path) const {
    const MountedTree* best = nullptr;
    for (const MountedTree& each : trees_) {
      const bool is_better = best == nullptr || each.target.size() > best->target.size();
      if (is_at_or_below(path, each.target) && is_better) best = &each;
    }
    return best;
  }

  Status enter(const MountedTree& mounted, const MergedDir& dir) {
    SBX_ASSIGN(std::vector<std::string> names, mounted.tree->stored_names(dir, dir.layers));
    held_ += names.size();
    if (held_ > kMaxNames) return Error(Errc::kLimit, "the tree has too many names");
    frames_.push_back({&mounted, dir, std::move(names), 0});
    return {};
  }

  Status visit(const MountedTree& mounted, const MergedDir& dir, const std::string& name) {
    SBX_ASSIGN(const MergedEntry entry, mounted.tree->look(dir, name));
    if (!entry.is_object()) return {};
    const std::string inside = join_path(mounted.target, join_path(dir.path, name));
    const std::string shown = base_.empty() ? inside : inside.substr(base_.size() + 1);
    if (!entry.is_dir()) {
      Status added = add(mounted, dir, entry, shown);
      if (!added.ok() && is_gone(added.error())) return {};
      return added;
    }
    const MountedTree* top = tree_at(inside);
    if (top != &mounted) {
      SBX_TRY(add_directory(*top, top->tree->root(), shown));
      return enter(*top, top->tree->root());
    }
    const MergedDir below = MergedTree::enter(dir, entry);
    SBX_TRY(add_directory(mounted, below, shown));
    return enter(mounted, below);
  }

  static archive::ArchiveEntry entry_of(const struct stat& st, const std::string& path) {
    archive::ArchiveEntry entry;
    entry.path = path;
    entry.mode = st.st_mode & 07777U;
    entry.mtime_ns = st.st_mtim.tv_sec * kNsPerSecond + st.st_mtim.tv_nsec;
    return entry;
  }

  Status add_directory(const MountedTree& mounted, const MergedDir& dir, const std::string& path) {
    const Result<UniqueFd> fd = mounted.tree->open_dir(dir);
    if (!fd.ok() && is_gone(fd.error())) return {};
    if (!fd.ok()) return fd.error();
    SBX_ASSIGN(const struct stat st, sys::fstat(fd.value().get()));
    archive::ArchiveEntry entry = entry_of(st, path);
    entry.type = archive::EntryType::kDirectory;
    SBX_ASSIGN(entry.xattrs, content_xattrs(fd.value().get()));
    return writer_.add(entry);
  }

  Status add(const MountedTree& mounted,
             const MergedDir& dir,
             const MergedEntry& found,
             const std::string& path) {
    if (S_ISREG(found.st.st_mode)) return add_file(mounted, dir, found, path);
    if (S_ISLNK(found.st.st_mode)) {
      archive::ArchiveEntry entry = entry_of(found.st, path);
      entry.type = archive::EntryType::kSymlink;
      SBX_ASSIGN(entry.link, mounted.tree->read_link(dir, found));
      ++report_.files;
      return writer_.add(entry);
    }
    ++report_.left_out_count;
    if (report_.left_out.size() < kMaxNoted) report_.left_out.push_back(path);
    return {};
  }

  Status add_file(const MountedTree& mounted,
                  const MergedDir& dir,
                  const MergedEntry& found,
                  const std::string& path) {
    SBX_ASSIGN(const UniqueFd file, mounted.tree->open_file(dir, found));
    SBX_ASSIGN(const struct stat st, sys::fstat(file.get()));
    archive::ArchiveEntry entry = entry_of(st, path);
    ++report_.files;
    if (st.st_nlink > 1 && writer_.keeps_hard_links()) {
      if (linked_.size() >= kMaxLinked) return Error(Errc::kLimit, "too many hard links");
      // One inode is one file only where it was found in the same layer.
      const auto key = std::tuple(&mounted, found.top, st.st_dev, st.st_ino);
      const auto [first, is_new] = linked_.emplace(key, path);
      if (!is_new) {
        entry.type = archive::EntryType::kHardLink;
        entry.link = first->second;
        return writer_.add(entry);
      }
    }
    entry.size = static_cast<std::uint64_t>(st.st_size);
    entry.data = archive::data_extents(file.get(), entry.size);
    if (entry.data.empty() && entry.size > 0) entry.data.push_back({entry.size, 0});  // all hole
    const bool is_dense = entry.data.size() == 1 && entry.data[0].length == entry.size;
    if (is_dense) entry.data.clear();
    SBX_ASSIGN(entry.xattrs, content_xattrs(file.get()));
    SteadyReader reader(file.get(), entry.size);
    SBX_TRY(writer_.add(entry, [&](std::span<std::byte> buffer) { return reader.read(buffer); }));
    report_.bytes += entry.size;
    if (reader.is_short() && report_.changed.size() < kMaxNoted) report_.changed.push_back(path);
    return {};
  }

  std::span<const MountedTree> trees_;
  archive::ArchiveWriter& writer_;
  std::string base_;
  std::vector<Frame> frames_;
  std::size_t held_ = 0;  // names in all frames
  std::map<std::tuple<const MountedTree*, std::size_t, dev_t, ino_t>, std::string> linked_;
  ExportReport report_;
};

}  // namespace

Result<ExportReport> export_tree(std::span<const MountedTree> trees,
                                 const std::string& path,
                                 archive::ArchiveWriter& writer) {
  return Exporter(trees, writer).run(path);
}

}  // namespace sbx::workspace
