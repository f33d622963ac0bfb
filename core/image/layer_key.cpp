// Layer key: see layer_key.h.
#include "core/image/layer_key.h"

#include "core/base/sha256.h"
#include "core/base/text.h"
#include "core/image/record.h"

namespace sbx::image {

std::string chain_id(std::string_view lower, std::string_view diff_id) {
  if (lower.empty()) return std::string(diff_id);
  Sha256 digest;
  digest.update(text::cat(lower, " ", diff_id));
  return "sha256:" + digest.hex();
}

std::string layer_id(std::string_view lower, std::string_view diff_id, bool depends_on_lower) {
  if (depends_on_lower) return image_layer_id(text::cat("chain:", lower, "+", diff_id));
  return image_layer_id(text::cat("diff:", diff_id));
}

}  // namespace sbx::image
