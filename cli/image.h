// Image: what the verbs of `sbx image` share.
#pragma once

#include <string>

#include "cli/verb.h"
#include "core/base/result.h"
#include "core/image/record.h"
#include "core/image/report.h"
#include "core/image/store.h"

namespace sbx::cli {

/// The images of our state directory, which is made when it is missing.
Result<image::Store> open_images();

/// Which sessions have layers of the image, and whether anything else holds them.
Result<image::Uses> uses_of(const image::Store& images, const image::Record& record);

/// Removes the layers that nobody uses any more and what interrupted pulls left, now rather than
/// with the next gc. Layers stay while somebody makes some.
void sweep_after(const image::Store& images);

/// The id as people read it: its first 12 digits; "-" for none.
std::string short_id(const image::Record& record);

/// Words of a verb that takes one NAME.
inline constexpr Words kOneImage{.min = 1, .max = 1, .name = "NAME"};

}  // namespace sbx::cli
