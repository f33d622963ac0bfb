// Layer complete: see layer_complete.h.
#include "core/image/layer_complete.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/layer_dirs.h"
#include "core/image/layer_path.h"
#include "core/workspace/copy_file.h"
#include "core/workspace/merged_tree.h"

namespace sbx::image {

namespace {

using workspace::MergedEntry;
using workspace::MergedTree;

using Links = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kAnyDepth = 4096;

class Completer {
 public:
  Completer(MergedTree tree, UniqueFd root, std::uint64_t max_bytes)
      : tree_(std::move(tree)), dirs_(std::move(root), kAnyDepth), left_(max_bytes) {}

  Status directory(const std::string& path) {
    SBX_ASSIGN(const std::optional<MergedTree::Place> place, tree_.find(path));
    if (!place.has_value() || !place->entry.is_dir()) return {};
    workspace::MergedDir below = MergedTree::enter(place->parent, place->entry);
    below.layers &= ~workspace::LayerSet{1};
    if (below.layers == 0) return {};  // it covers nothing
    SBX_ASSIGN(const UniqueFd from, tree_.open_dir(below));
    SBX_ASSIGN(const struct stat st, sys::fstat(from.get()));
    SBX_ASSIGN(const UniqueFd to, workspace::open_directory(dirs_.root(), path));
    return workspace::copy_metadata(from.get(), to.get(), st, workspace::Attributes::kMerged);
  }

  /// Links to links that are made here have to wait for those.
  Status links(Links todo) {
    constexpr int kPasses = 4;
    for (int pass = 0; !todo.empty(); ++pass) {
      Links later;
      for (auto& [path, target] : todo) {
        Status done = make_link(path, target);
        if (done.ok()) continue;
        const bool may_wait = done.error().code() == Errc::kNotFound && pass + 1 < kPasses;
        if (!may_wait) {
          return std::move(done).error().prefixed(
              text::cat(shown(path), ": hard link to ", shown(target)));
        }
        first_.erase(target);
        later.emplace_back(std::move(path), std::move(target));
      }
      todo = std::move(later);
    }
    return {};
  }

  Status finish() { return dirs_.leave(); }

 private:
  Status make_link(const std::string& path, const std::string& target) {
    auto [dir, name] = workspace::split_path(path);
    const auto first = first_.find(target);
    std::string from_dir;
    std::string from_name;
    UniqueFd from;
    if (first != first_.end()) {
      std::tie(from_dir, from_name) = workspace::split_path(first->second);
      SBX_ASSIGN(from, dirs_.find(from_dir));
    }
    SBX_ASSIGN(const int to, dirs_.enter(dir, timespec{}));
    dirs_.touch();
    SBX_TRY(clear(to, dir, name));
    if (first == first_.end()) {
      first_[target] = path;
      return copy(target, to, name);
    }
    if (::linkat(from.get(), from_name.c_str(), to, name.c_str(), 0) == 0) return {};
    return sys_error("link");
  }

  Status clear(int dirfd, const std::string& dir, const std::string& name) {
    SBX_TRY(removed(dirs_.clear(dirfd, dir, name)));
    return {};
  }
  static Status removed(const Result<mode_t>& was) {
    return was.ok() ? Status() : Status(was.error());
  }

  Status copy(const std::string& target, int dirfd, const std::string& name) {
    SBX_ASSIGN(const std::optional<MergedTree::Place> place, tree_.find(target));
    if (!place.has_value()) return Error(Errc::kNotFound, "there is no such file in the image");
    const MergedEntry& entry = place->entry;
    if (S_ISLNK(entry.st.st_mode)) {
      SBX_ASSIGN(const std::string text, tree_.read_link(place->parent, entry));
      SBX_TRY(sys::symlinkat(text, dirfd, name));
      return workspace::copy_metadata_at(dirfd, name, entry.st);
    }
    if (!S_ISREG(entry.st.st_mode)) return Error(Errc::kDenied, "that is no file");
    const auto size = static_cast<std::uint64_t>(entry.st.st_size);
    if (size > left_) return Error(Errc::kLimit, "with it the content is above the budget");
    left_ -= size;
    SBX_ASSIGN(const UniqueFd in, tree_.open_file(place->parent, entry));
    SBX_ASSIGN(const UniqueFd out,
               sys::openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    const auto copied = workspace::copy_content(in.get(), out.get(), size, reflink_);
    if (!copied.ok()) return copied.error();
    return workspace::copy_metadata(in.get(), out.get(), entry.st, workspace::Attributes::kMerged);
  }

  MergedTree tree_;
  LayerDirs dirs_;
  std::uint64_t left_;
  workspace::Reflink reflink_ = workspace::Reflink::kTry;
  std::map<std::string, std::string> first_;  // target: the path that has its copy
};

}  // namespace

Status complete_layer(int root,
                      std::vector<UniqueFd> lower,
                      const LayerReport& report,
                      std::uint64_t max_bytes) {
  if (lower.size() >= MergedTree::kMaxLayers) {
    return Error(Errc::kLimit,
                 text::cat("a layer on more than ",
                           MergedTree::kMaxLayers - 1,
                           " others leaves out the directories that its files are in"));
  }
  std::vector<UniqueFd> layers;
  SBX_ASSIGN(UniqueFd own, sys::dup(root));
  layers.push_back(std::move(own));
  for (UniqueFd& fd : lower)
    layers.push_back(std::move(fd));
  SBX_ASSIGN(MergedTree tree, MergedTree::open(std::move(layers)));
  SBX_ASSIGN(UniqueFd dirs, sys::dup(root));
  Completer completer(std::move(tree), std::move(dirs), max_bytes);
  for (const std::string& path : report.implied)
    SBX_TRY(completer.directory(path));
  SBX_TRY(completer.links(report.links));
  return completer.finish();
}

}  // namespace sbx::image
