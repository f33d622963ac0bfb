// Report: what people and programs are told about images, as JSON objects of one line each.
#pragma once

#include <string>
#include <vector>

#include "core/image/record.h"

namespace sbx::image {

/// What is not in the record.
struct Uses {
  std::vector<std::string> sessions;  ///< that have layers of it
  bool has_runs = false;              ///< somebody holds layers of it
};

/// Bytes of content of all its layers.
std::uint64_t size_of(const Record& record);

/// For `image ls`, import and pull; `problem` of a record that cannot be read.
std::string listing_json(const Record& record, const std::string& problem = {});
/// For `image show`: the settings and each layer as well.
std::string details_json(const Record& record, const Uses& uses);
/// For `image rm`.
std::string removed_json(const Record& record, const Uses& uses);

}  // namespace sbx::image
