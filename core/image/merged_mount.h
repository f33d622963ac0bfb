// Merged mount: the layers of an image as one tree, mounted by the kernel's own rules in a storage
// job, where ids are as inside.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/storage_ids.h"
#include "core/image/store.h"

namespace sbx::image {

/// Layers made reachable for a job before it is forked: root's jobs may not walk to them, since the
/// state directory is root's alone; a user's jobs may, and only they may open all.
struct SharedLayers {
  std::string dir;               ///< the directory of layers, absolute
  std::vector<std::string> ids;  ///< lowest first
  std::vector<UniqueFd> trees;   ///< with a range of ids: a detached mount of the root of each
};
Result<SharedLayers> share_layers(const Store& store,
                                  const confine::StorageIds& storage,
                                  const Record& record);

struct MergedMount {
  UniqueFd root;     ///< readable directory
  std::string path;  ///< of it, in the job
};
/// In a storage job, once: mounts these layers read-only in the job's own mount namespace (over
/// /sys). No layers are an empty tree.
Result<MergedMount> mount_merged(const SharedLayers& shared);

}  // namespace sbx::image
