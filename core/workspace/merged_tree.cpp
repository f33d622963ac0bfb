// Merged tree: each name is looked up from the highest layer down until one decides.
#include "core/workspace/merged_tree.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::workspace {
namespace {

/// Errors of a name that vanished, or became something else, since it was seen.
bool is_gone(const Error& error) {
  const int err = error.sys_errno();
  return err == ENOENT || err == ENOTDIR || err == ELOOP;
}

constexpr LayerSet bit(std::size_t index) {
  return LayerSet{1} << index;
}

}  // namespace

Result<MergedTree> MergedTree::open(std::vector<UniqueFd> layers) {
  if (layers.empty() || layers.size() > kMaxLayers) {
    return Error(Errc::kLimit, text::cat("a stack of ", layers.size(), " layers"));
  }
  return MergedTree(std::move(layers));
}

MergedTree::MergedTree(std::vector<UniqueFd> layers) : layers_(std::move(layers)) {
  for (const UniqueFd& layer : layers_) {
    cursors_.emplace_back(layer.get());
  }
}

MergedDir MergedTree::root() const {
  return {"", above(0)};
}

LayerSet MergedTree::above(std::size_t shared) const {
  const std::size_t count = layers_.size() - std::min(shared, layers_.size());
  return count == kMaxLayers ? ~LayerSet{0} : bit(count) - 1;
}

Result<std::optional<int>> MergedTree::stored_dir(const MergedDir& dir, std::size_t index) {
  const Result<int> opened = cursors_[index].open(dir.path);
  if (opened.ok()) return std::optional(opened.value());
  if (is_gone(opened.error())) return std::optional<int>();
  return opened.error();
}

Result<bool> MergedTree::is_opaque_at(int dirfd, const std::string& name) {
  const Result<UniqueFd> dir = open_entry(dirfd, name, O_RDONLY | O_DIRECTORY);
  if (dir.ok()) return is_opaque(dir.value().get());
  if (is_gone(dir.error())) return false;
  return dir.error();
}

Result<MergedEntry> MergedTree::look(const MergedDir& dir, const std::string& name) {
  MergedEntry entry;
  entry.name = name;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if ((dir.layers & bit(i)) == 0) continue;
    SBX_ASSIGN(const std::optional<int> stored, stored_dir(dir, i));
    if (!stored.has_value()) continue;
    const Result<struct stat> found = sys::fstatat(*stored, name, AT_SYMLINK_NOFOLLOW);
    if (!found.ok() && is_gone(found.error())) continue;
    if (!found.ok()) return found.error();
    const struct stat& st = found.value();
    if (entry.kind == MergedEntry::Kind::kNone) {
      entry.top = i;
      entry.kind = is_whiteout(st) ? MergedEntry::Kind::kWhiteout : MergedEntry::Kind::kObject;
      if (entry.is_object()) entry.st = st;
    }
    if (!S_ISDIR(st.st_mode)) {
      entry.is_cut = entry.layers != 0;
      break;
    }
    entry.layers |= bit(i);
    SBX_ASSIGN(const bool is_cut, is_opaque_at(*stored, name));
    entry.is_cut = is_cut;
    if (is_cut) break;
  }
  return entry;
}

Result<std::vector<std::string>> MergedTree::stored_names(const MergedDir& dir, LayerSet layers) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if ((dir.layers & layers & bit(i)) == 0) continue;
    SBX_ASSIGN(const std::optional<int> stored, stored_dir(dir, i));
    if (!stored.has_value()) continue;
    SBX_ASSIGN(std::vector<std::string> more, read_names(*stored));
    if (names.size() + more.size() > kMaxNames) {
      return Error(Errc::kLimit, text::cat("a directory has more than ", kMaxNames, " names"));
    }
    names.insert(
        names.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  std::ranges::sort(names);
  // std::ranges::unique gives a subrange, which clang 14 cannot compile with this library.
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<std::vector<MergedEntry>> MergedTree::list(const MergedDir& dir) {
  SBX_ASSIGN(const std::vector<std::string> names, stored_names(dir, dir.layers));
  std::vector<MergedEntry> entries;
  for (const std::string& name : names) {
    SBX_ASSIGN(MergedEntry entry, look(dir, name));
    if (entry.is_object()) entries.push_back(std::move(entry));
  }
  return entries;
}

MergedDir MergedTree::enter(const MergedDir& parent, const MergedEntry& entry) {
  return {join_path(parent.path, entry.name), entry.layers};
}

Result<std::optional<MergedTree::Place>> MergedTree::find(const std::string& path) {
  Place place;
  place.parent = root();
  if (path.empty()) {
    place.entry.kind = MergedEntry::Kind::kObject;
    place.entry.layers = place.parent.layers;
    SBX_ASSIGN(place.entry.st, sys::fstat(layers_.front().get()));
    return std::optional(std::move(place));
  }
  bool is_first = true;
  for (const std::string_view part : text::split(path, '/')) {
    if (part.empty() || part == "." || part == "..") {
      return Error(Errc::kUsage, text::cat("not a plain path: ", path));
    }
    if (!is_first) {
      if (!place.entry.is_dir()) return std::optional<Place>();
      place.parent = enter(place.parent, place.entry);
    }
    is_first = false;
    SBX_ASSIGN(place.entry, look(place.parent, std::string(part)));
    if (!place.entry.is_object()) return std::optional<Place>();
  }
  return std::optional(std::move(place));
}

Result<UniqueFd> MergedTree::open_file(const MergedDir& parent, const MergedEntry& entry) {
  SBX_ASSIGN(const std::optional<int> stored, stored_dir(parent, entry.top));
  if (!stored.has_value()) return sys_error(text::cat("open ", entry.name), ENOENT);
  return open_regular(*stored, entry.name);
}

Result<UniqueFd> MergedTree::open_dir(const MergedDir& dir) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if ((dir.layers & bit(i)) == 0) continue;
    return open_directory(layers_[i].get(), dir.path);
  }
  return sys_error(text::cat("open ", dir.path), ENOENT);
}

Result<std::string> MergedTree::read_link(const MergedDir& parent, const MergedEntry& entry) {
  SBX_ASSIGN(const std::optional<int> stored, stored_dir(parent, entry.top));
  if (!stored.has_value()) return sys_error(text::cat("read link ", entry.name), ENOENT);
  return sys::readlinkat(*stored, entry.name);
}

}  // namespace sbx::workspace
