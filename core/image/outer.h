// Outer: reads what is imported from its first byte to its last, in a process that owns nothing but
// the directory the layers go to, and reports what it found.
//
// Either the stream is the tar file of a root file system: one layer. Or it is an archive of an
// image (`docker save`, an OCI layout): layers are unpacked as they are met, the small texts that
// describe them are kept, and what the image that was asked for does not name is dropped at the
// end. Where the stream is a plain file, the texts are read first, and only what is needed and not
// there yet is unpacked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/image/image_config.h"
#include "core/image/import.h"
#include "core/image/layer_sink.h"

namespace sbx::image {

/// The layers that are there: what a layer would be called by its content, and what it is called.
using PresentLayers = std::map<std::string, std::string>;

/// A layer of an OCI layout directory that is to be unpacked.
struct OpenedBlob {
  UniqueFd fd;
  std::string path;  ///< in the layout
  std::string diff_id;
};

struct OuterRequest {
  int source = -1;  ///< descriptor; not used when there are `blobs`
  std::vector<OpenedBlob> blobs;
  int staging = -1;  ///< directory: layers are made in it as "0", "1" …
  Budget budget;
  std::string tag;
  PresentLayers present;
  ImportProgress* progress = nullptr;
};

/// A layer that was unpacked.
struct StagedLayer {
  std::string stage;  ///< its directory in the staging one
  std::string diff_id;
  LayerReport report;
};

struct OuterReport {
  Status status;
  /// The settings of the image that was chosen and the digests of its layers; none for the tar file
  /// of a root file system.
  std::optional<ImageConfig> image;
  std::vector<StagedLayer> staged;
};

/// The id of the layer `diff_id` on the layers of the chain `lower`; "" when it is not there.
std::string present_layer(const PresentLayers& present,
                          std::string_view lower,
                          std::string_view diff_id);

/// Does it all. Blocks.
OuterReport read_source(const OuterRequest& request);

}  // namespace sbx::image
