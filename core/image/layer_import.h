// Layer import: one tar stream as one layer directory.
#pragma once

#include <functional>

#include "core/archive/archive_reader.h"
#include "core/base/unique_fd.h"
#include "core/image/layer_report.h"
#include "core/image/layer_writer.h"

namespace sbx::image {

/// Writes the members of the plain tar stream `input` below `root` (an empty directory) and reads
/// the stream to its end. `on_entry` is called for each. See LayerWriter for who may call this.
LayerReport import_layer(UniqueFd root,
                         const LayerLimits& limits,
                         const archive::NextBlock& input,
                         const std::function<void()>& on_entry);

}  // namespace sbx::image
