// Merged mount: see merged_mount.h.
//
// Layers are named by links "0", "1" ... in a small tmpfs, which is the working directory while the
// overlay is made: its options have to fit into one page, and may then hold any path. An empty
// directory is the lowest layer, since the kernel wants two.
#include "core/image/merged_mount.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <unistd.h>

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

/// What a link to the root of a layer says.
std::string target_of(const SharedLayers& shared, const std::string& id) {
  const std::string dir = shared.tree.valid() ? std::string("layers") : shared.dir;
  return text::cat(dir, "/", id, "/fs/root");
}

Status make_stage(const SharedLayers& shared, const std::vector<std::string>& ids) {
  if (::mount("tmpfs", kStage, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,nr_inodes=1k,mode=0755") !=
      0) {
    return sys_error(text::cat("mount a tmpfs on ", kStage));
  }
  if (::chdir(kStage) != 0) return sys_error(text::cat("enter ", kStage));
  for (const char* dir : {"empty", "merged", "layers"}) {
    SBX_TRY(sys::mkdirat(AT_FDCWD, dir, 0755));
  }
  if (shared.tree.valid()) {
    SBX_TRY(sys::move_mount(shared.tree.get(), "", AT_FDCWD, "layers", MOVE_MOUNT_F_EMPTY_PATH));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!workspace::is_layer_id(ids[i])) {
      return Error(Errc::kProtocol, text::cat("no name of a layer: ", text::escape(ids[i])));
    }
    SBX_TRY(sys::symlinkat(target_of(shared, ids[i]), AT_FDCWD, text::cat(i)));
  }
  return {};
}

}  // namespace

Result<SharedLayers> share_layers(const confine::StorageIds& ids,
                                  int layers,
                                  const std::string& layers_dir) {
  SharedLayers shared;
  shared.dir = layers_dir;
  if (ids.kind == confine::StorageIds::Kind::kRange) {
    SBX_ASSIGN(shared.tree, sys::open_tree(layers, "", OPEN_TREE_CLONE | AT_EMPTY_PATH));
  }
  return shared;
}

Result<MergedMount> mount_merged(const SharedLayers& shared, const std::vector<std::string>& ids) {
  SBX_TRY(make_stage(shared, ids));
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
