// Merged mount: the layers of an image as one tree, mounted by the kernel's own rules in a storage
// job, where ids are as inside.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/storage_ids.h"

namespace sbx::image {

/// The directory of layers, made reachable for a job before it is forked: root's jobs may not walk
/// to it, since the state directory is root's alone.
struct SharedLayers {
  std::string dir;  ///< absolute
  UniqueFd tree;    ///< a detached mount of it, for IdRange ids
};
Result<SharedLayers> share_layers(const confine::StorageIds& ids,
                                  int layers,
                                  const std::string& layers_dir);

struct MergedMount {
  UniqueFd root;     ///< readable directory
  std::string path;  ///< of it, in the job
};
/// In a storage job, once: mounts these layers, lowest first, read-only, in the job's own mount
/// namespace (over /sys). No layers are an empty tree.
Result<MergedMount> mount_merged(const SharedLayers& shared, const std::vector<std::string>& ids);

}  // namespace sbx::image
