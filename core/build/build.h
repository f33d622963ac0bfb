// Build: makes an image by carrying out a recipe.
//
// Theory of operation
//  1. Each step has a key: a digest of the base's identity, of all steps up to it and of what they
//     copy. The state after a step is kept as an image of its own, named kCachePrefix and the key;
//     a build goes on from the last state that is there.
//  2. A step that runs or copies something does so in a session of the state before it (network
//     none, limits of the recipe's profile), which is stopped, committed and removed. A killed
//     build leaves a session that removes itself after kSessionTtl, and states that are whole.
//  3. The last state gets the image's name.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/build/recipe.h"
#include "core/image/record.h"
#include "core/profile/profile.h"
#include "core/session/lifecycle.h"

namespace sbx::build {

/// How long an abandoned session of a build stays, as a profile has it.
inline constexpr std::string_view kSessionTtl = "15m";

struct StepReport {
  std::size_t number = 0;  ///< from 1
  std::size_t count = 0;
  std::string text;  ///< Step::to_text()
  bool is_cached = false;
};

struct BuildRequest {
  std::string state_dir;
  std::vector<std::string> private_dirs;  ///< see profile::LoadRequest
  std::string name;                       ///< of the image
  Recipe recipe;
  std::string recipe_dir;  ///< absolute; what copies and mounts are relative to
  std::string source;      ///< Record::source
  bool is_using_cache = true;
  profile::EnvLookup env = profile::process_env;
  std::function<void(const StepReport&)> on_step;  ///< before each step; may be empty
  session::Warn warn;
};

/// A step whose program failed.
struct FailedStep {
  Step step;
  int exit_status = 0;  ///< as `sbx session exec` has it
  std::string error;    ///< what sbx has to say of it; may be empty
};

struct Built {
  image::Record image;
  std::size_t cached_steps = 0;
  std::optional<FailedStep> failed;  ///< then there is no image
};

/// What programs of the steps write goes to our stderr. kNotFound for a base that is not there,
/// kUsage for what the recipe names and is not there. Blocks.
Result<Built> build(const BuildRequest& request);

}  // namespace sbx::build
