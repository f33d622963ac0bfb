// Canonical: the digest of a stored layer's own tar (layer_tar.h), kept beside it, so that a layer
// that was exported is found again when that tar is imported.
//
//   layers/ID/canonical   "sha256:<64 hex> <bytes>\n"
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/image/layer_tar.h"

namespace sbx::image {

/// Other ids of stored layers: the one that a layer would get if it were unpacked from its own tar
/// (image_layer_id("diff:" + diff_id)), and the one that it has. Costs one small read for each
/// image layer. The caller holds the shared LayersLock, or the layers may go.
Result<std::map<std::string, std::string>> layer_aliases(int layers);

/// What is noted for a layer; nullopt when nothing is.
std::optional<LayerTar> canonical_of(int layers, const std::string& id);
/// Notes it. `layer`: the directory of the layer, also of one that is being made.
Status note_canonical(int layer, const LayerTar& tar);

}  // namespace sbx::image
