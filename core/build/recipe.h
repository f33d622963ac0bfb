// Recipe: how an image is made of another one, as plain data, and its YAML.
//
//   from: debian                       # an image, or "scratch" for an empty one
//   profile: agent                     # the sandbox of the steps; the default
//   mounts: ["./repo:/repo"]           # shown read-only while steps run, no part of the image
//   network: none                      # what steps may reach
//   steps:
//     - run: apt-get install -y hello  # by /bin/sh -c; a list is executed as it stands
//     - copy: {from: app, to: /opt/app}
//     - env: {NAME: value}
//     - user: app
//     - workdir: /opt/app
//     - entrypoint: [/opt/app/start]
//     - cmd: [--help]
//     - expose: [80/tcp]
//     - volume: [/data]
//     - label: {version: "1"}
//
// Each step is a map with one key. It knows nothing of how steps are carried out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/image/record.h"

namespace sbx::build {

enum class StepKind : std::uint8_t {
  kRun,
  kCopy,
  kEnv,
  kUser,
  kWorkdir,
  kEntrypoint,
  kCmd,
  kExpose,
  kVolume,
  kLabel,
};
/// The key of such a step: "run".
std::string_view name(StepKind kind);

struct Step {
  StepKind kind = StepKind::kRun;
  std::vector<std::string> words;  ///< argv, ports, directories; kUser, kWorkdir: one
  std::vector<std::pair<std::string, std::string>> pairs;  ///< kEnv, kLabel
  std::string from;  ///< kCopy: relative to the recipe's directory, without ".."
  std::string to;    ///< kCopy: absolute place inside
  int line = 0;      ///< in the recipe

  /// One line that says what it does; hostile bytes escaped.
  std::string to_text() const;
};

struct Recipe {
  std::string from;
  std::string profile = "agent";
  std::vector<std::string> mounts;  ///< "SRC:DST", SRC as it was written
  std::vector<Step> steps;
};

/// Base of a recipe that begins with nothing.
inline constexpr std::string_view kScratch = "scratch";

/// `file` names it in errors. kUsage with FILE:LINE:COLUMN of the first mistake.
Result<Recipe> parse_recipe(std::string_view text, const std::string& file);

/// What a step that is no kRun or kCopy changes.
void apply(const Step& step, image::Config& config);

}  // namespace sbx::build
