// Merged mount: see merged_mount.h.
//
// Layers have the names "0", "1" ... in a small tmpfs, which is the working directory while the
// overlay is made: its options have to fit into one page, and may then hold any path. An empty
// directory is the lowest layer, since the kernel wants two.
#include "core/image/merged_mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/workspace/layer_store.h"

// Of <linux/mount.h>, which cannot be included together with <sys/mount.h>.
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#endif

namespace sbx::image {

namespace {

/// A directory that every host has and nothing of the job needs.
constexpr const char* kStage = "/sys";
constexpr const char* kMerged = "/sys/merged";

Status make_stage(const SharedLayers& shared) {
  if (::mount("tmpfs", kStage, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,nr_inodes=1k,mode=0755") !=
      0) {
    return sys_error(text::cat("mount a tmpfs on ", kStage));
  }
  if (::chdir(kStage) != 0) return sys_error(text::cat("enter ", kStage));
  for (const char* dir : {"empty", "merged"}) {
    SBX_TRY(sys::mkdirat(AT_FDCWD, dir, 0755));
  }
  for (std::size_t i = 0; i < shared.ids.size(); ++i) {
    const std::string name = text::cat(i);
    if (shared.trees.empty()) {
      SBX_TRY(
          sys::symlinkat(text::cat(shared.dir, "/", shared.ids[i], "/fs/root"), AT_FDCWD, name));
      continue;
    }
    SBX_TRY(sys::mkdirat(AT_FDCWD, name, 0755));
    SBX_TRY(sys::move_mount(shared.trees[i].get(), "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH));
  }
  return {};
}

}  // namespace

Result<SharedLayers> share_layers(const Store& store,
                                  const confine::StorageIds& storage,
                                  const Record& record) {
  SharedLayers shared;
  shared.dir = store.layers_dir();
  for (const LayerRef& layer : record.layers) {
    // Checks the name, and that it is there.
    SBX_ASSIGN(const UniqueFd whole, workspace::open_layer(store.layers(), layer.id));
    shared.ids.push_back(layer.id);
    if (storage.kind != confine::StorageIds::Kind::kRange) continue;
    SBX_ASSIGN(UniqueFd tree, sys::open_tree(whole.get(), "root", OPEN_TREE_CLONE));
    shared.trees.push_back(std::move(tree));
  }
  return shared;
}

Result<MergedMount> mount_merged(const SharedLayers& shared) {
  SBX_TRY(make_stage(shared));
  const std::vector<std::string>& ids = shared.ids;
  MergedMount merged;
  if (ids.empty()) {
    merged.path = text::cat(kStage, "/empty");
    SBX_ASSIGN(merged.root, sys::open(merged.path, O_RDONLY | O_DIRECTORY));
    return merged;
  }
  std::string options = "userxattr,lowerdir=";
  for (std::size_t i = ids.size(); i > 0; --i) {
    options += text::cat(i - 1, ":");
  }
  options += "empty";
  constexpr unsigned long kFlags = MS_RDONLY | MS_NOSUID | MS_NODEV;
  if (::mount("overlay", kMerged, "overlay", kFlags, options.c_str()) != 0) {
    return sys_error(text::cat("mount the ", ids.size(), " layers of the image"));
  }
  if (::chdir("/") != 0) return sys_error("leave the stage");
  merged.path = kMerged;
  SBX_ASSIGN(merged.root, sys::open(merged.path, O_RDONLY | O_DIRECTORY));
  return merged;
}

}  // namespace sbx::image
