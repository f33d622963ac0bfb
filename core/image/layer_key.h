// Layer key: what a layer that is read from a tar file is found by.
#pragma once

#include <string>
#include <string_view>

namespace sbx::image {

/// The digest of a stack of layers (image-spec config.md, "ChainID"): of `lower` ("" for none) with
/// the layer `diff_id` on top.
std::string chain_id(std::string_view lower, std::string_view diff_id);

/// The id of the layer `diff_id` in the store. Where it depends on the layers below, whose chain is
/// `lower`, it is another layer for each of them.
std::string layer_id(std::string_view lower, std::string_view diff_id, bool depends_on_lower);

}  // namespace sbx::image
