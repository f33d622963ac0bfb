// Layer complete: gives a fresh layer what only the layers below it know.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/image/layer_report.h"

namespace sbx::image {

/// Directories that no member named get mode, owner, times and attributes of the ones that they
/// would cover; hard links to files of lower layers become files of their own. `root` is the root
/// of the layer, `lower` those of the ones below, the highest first. At most `max_bytes` are
/// copied. As root of the storage ids. kNotFound for a link to what is nowhere.
Status complete_layer(int root,
                      std::vector<UniqueFd> lower,
                      const LayerReport& report,
                      std::uint64_t max_bytes);

}  // namespace sbx::image
