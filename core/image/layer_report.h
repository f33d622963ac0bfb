// Layer report: what the process that wrote a layer says of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/image/layer_writer.h"

namespace sbx::image {

struct LayerReport {
  Status status;
  std::uint64_t bytes = 0;  ///< of content
  std::uint64_t entries = 0;
  LeftOut left_out;
  /// What only the layers below can say: see LayerWriter.
  std::vector<std::string> implied;
  std::vector<std::pair<std::string, std::string>> links;

  /// Whether the same stream gives another layer on other layers below.
  bool depends_on_lower() const { return !implied.empty() || !links.empty(); }
};

/// Longest encoded report.
inline constexpr std::size_t kMaxLayerReport = std::size_t{4} * kMaxNotes;

std::string encode(const LayerReport& report);
/// kProtocol when malformed. Paths are checked (member_path), so that they can be used.
Result<LayerReport> decode_layer_report(std::string_view text);

}  // namespace sbx::image
