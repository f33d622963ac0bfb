// Layer tar: a stored layer as the tar file that the OCI image specification describes
// (image-spec v1.1 layer.md): whiteouts as .wh.NAME and .wh..wh..opq, ids as inside, entries sorted
// by name, so that equal layers give equal bytes.
#pragma once

#include <string>

#include "core/base/result.h"

namespace sbx::image {

struct LayerTar {
  std::string diff_id;      ///< "sha256:<hex>" of what was written
  std::uint64_t bytes = 0;  ///< length of it
};

/// Writes the part "root" of the layer `id` to `out`, uncompressed. To be called as root of the
/// storage ids (confine::fork_as_storage_root). Sockets are left out. Blocks.
Result<LayerTar> write_layer_tar(int layers, const std::string& id, int out);

}  // namespace sbx::image
