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
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/image/import.h"
#include "core/image/layer_sink.h"

namespace sbx::image {

struct OuterRequest {
  int source = -1;   ///< descriptor
  int staging = -1;  ///< directory: layers are made in it as "0", "1" …
  Budget budget;
  std::string tag;
  std::set<std::string> present;  ///< ids of layers that are there
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
  std::vector<StagedLayer> staged;
};

inline constexpr std::size_t kMaxOuterReport = std::size_t{512} << 20U;

std::string encode(const OuterReport& report);
Result<OuterReport> decode_outer_report(std::string_view text);

/// Does it all. Blocks.
OuterReport read_source(const OuterRequest& request);

}  // namespace sbx::image
