// Image config: the JSON configuration of an OCI or Docker image (image-spec config.md). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/image/record.h"

namespace sbx::image {

struct ImageConfig {
  std::string os;
  std::string architecture;
  std::string variant;
  Config config;
  std::vector<std::string> diff_ids;  ///< lowest first, each "sha256:<64 hex>"
};

/// kProtocol for what is no configuration, kUnsupported for digests that are no sha256.
Result<ImageConfig> parse_image_config(std::string_view text);

/// "sha256:" and 64 lower-case hex digits: kUnsupported for another algorithm, else kProtocol.
Status check_digest(std::string_view digest);

/// "linux/arm64/v8".
std::string platform_name(std::string_view os,
                          std::string_view architecture,
                          std::string_view variant);
/// How well a platform suits this machine: 0 not at all, the highest is the best.
int platform_rank(std::string_view os, std::string_view architecture, std::string_view variant);

}  // namespace sbx::image
