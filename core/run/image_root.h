// Image root: an image as the root of a run or a session: opened, its user found, its settings put
// under those that a person made.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/result.h"
#include "core/image/store.h"
#include "core/profile/profile.h"

namespace sbx::run {

/// An image that is in use: its layers cannot be removed as long as this lives.
struct UsedImage {
  image::Opened opened;
  image::ImageUser user;

  const image::Config& config() const { return opened.record.config; }
};

/// The image `name` and the user that its programs run as. kNotFound with near names; kUsage when
/// its own files do not know that user; kUnsupported where this user can have no images.
Result<UsedImage> use_image(const std::string& state_dir, std::string_view name);

backend::ImageRoot root_of(const UsedImage& image);

/// The working directory is the image's, when it has one, unless a person set another.
void apply_workdir(const UsedImage& image, profile::Profile& profile);

/// What a command line with an image runs: `words` behind the entry point. `entrypoint`: in place
/// of the image's, whose own command then does not count; empty: none. kUsage when nothing is left.
Result<std::vector<std::string>> image_command(
    const UsedImage& image,
    const std::optional<std::vector<std::string>>& entrypoint,
    const std::vector<std::string>& words);

}  // namespace sbx::run
