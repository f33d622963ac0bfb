// Image config: see image_config.h.
#include "core/image/image_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/text.h"

#include <nlohmann/json.hpp>

namespace sbx::image {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kHexDigits = 64;

Error malformed(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("the image's configuration: malformed ", what));
}

const Json* find(const Json& object, const char* key) {
  const auto* members = object.get_ptr<const Json::object_t*>();
  if (members == nullptr) return nullptr;
  const auto at = members->find(key);
  return at == members->end() || at->second.is_null() ? nullptr : &at->second;
}

bool is_clean(const std::string& text) {
  return text.find('\0') == std::string::npos;
}

Status read(const Json& object, const char* key, std::string& into) {
  const Json* value = find(object, key);
  if (value == nullptr) return {};
  if (!value->is_string()) return malformed(key);
  into = value->get<std::string>();
  return is_clean(into) ? Status() : malformed(key);
}

/// A list of texts; a single one is a list of one.
Status read(const Json& object, const char* key, std::vector<std::string>& into) {
  const Json* value = find(object, key);
  if (value == nullptr) return {};
  const Json list = value->is_string() ? Json::array({*value}) : *value;
  if (!list.is_array()) return malformed(key);
  for (const Json& item : list) {
    if (!item.is_string()) return malformed(key);
    into.push_back(item.get<std::string>());
    if (!is_clean(into.back())) return malformed(key);
  }
  return {};
}

/// The keys of an object.
Status read_keys(const Json& object, const char* key, std::vector<std::string>& into) {
  const Json* value = find(object, key);
  if (value == nullptr) return {};
  if (!value->is_object()) return malformed(key);
  for (const auto& [name, unused] : value->items()) {
    if (!is_clean(name)) return malformed(key);
    into.push_back(name);
  }
  return {};
}

std::string absolute(const std::string& path) {
  return path.starts_with('/') ? path : "/" + path;
}

Status read_settings(const Json& object, Config& config) {
  SBX_TRY(read(object, "Entrypoint", config.entrypoint));
  SBX_TRY(read(object, "Cmd", config.cmd));
  SBX_TRY(read(object, "Env", config.env));
  std::erase_if(config.env, [](const std::string& entry) {
    const std::size_t equals = entry.find('=');
    return equals == 0 || equals == std::string::npos;
  });
  SBX_TRY(read(object, "User", config.user));
  SBX_TRY(read(object, "WorkingDir", config.workdir));
  if (!config.workdir.empty()) config.workdir = absolute(config.workdir);
  SBX_TRY(read(object, "StopSignal", config.stop_signal));
  SBX_TRY(read_keys(object, "Volumes", config.volumes));
  for (std::string& path : config.volumes)
    path = absolute(path);
  std::ranges::sort(config.volumes);
  SBX_TRY(read_keys(object, "ExposedPorts", config.exposed_ports));
  std::ranges::sort(config.exposed_ports);
  const Json* labels = find(object, "Labels");
  if (labels == nullptr) return {};
  if (!labels->is_object()) return malformed("Labels");
  for (const auto& [key, value] : labels->items()) {
    if (!value.is_string()) return malformed("Labels");
    config.labels.emplace_back(key, value.get<std::string>());
  }
  std::ranges::sort(config.labels);
  return {};
}

/// Of one architecture, the better one first; what is not in a row suits less than what is.
struct Variants {
  std::string_view architecture;
  std::array<std::string_view, 3> best_first;
};

constexpr std::array kVariants{
    Variants{"amd64", {"", "v1", "v2"}},  // v3 and above need more than every such machine has
    Variants{"arm64", {"v8", "", "v9"}},
    Variants{"arm", {"v7", "v6", "v5"}},
};

}  // namespace

Status check_digest(std::string_view digest) {
  constexpr std::string_view kPrefix = "sha256:";
  const std::size_t colon = digest.find(':');
  if (colon != std::string_view::npos && !digest.starts_with(kPrefix)) {
    return Error(
        Errc::kUnsupported,
        text::cat("digests of the kind ", text::escape(digest.substr(0, colon)), ": only sha256"));
  }
  const std::string_view hex = digest.substr(std::min(kPrefix.size(), digest.size()));
  const bool is_hex = std::ranges::all_of(
      hex, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (digest.starts_with(kPrefix) && hex.size() == kHexDigits && is_hex) return {};
  return Error(Errc::kProtocol, text::cat("no digest: ", text::escape(digest.substr(0, 100))));
}

Result<ImageConfig> parse_image_config(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return malformed("JSON");
  ImageConfig image;
  SBX_TRY(read(json, "os", image.os));
  SBX_TRY(read(json, "architecture", image.architecture));
  SBX_TRY(read(json, "variant", image.variant));
  if (const Json* settings = find(json, "config"); settings != nullptr) {
    if (!settings->is_object()) return malformed("config");
    SBX_TRY(read_settings(*settings, image.config));
  }
  const Json* rootfs = find(json, "rootfs");
  if (rootfs == nullptr) return malformed("rootfs");
  SBX_TRY(read(*rootfs, "diff_ids", image.diff_ids));
  if (image.diff_ids.size() > kMostLayers) {
    return Error(Errc::kLimit, text::cat("the image has more than ", kMostLayers, " layers"));
  }
  for (const std::string& diff_id : image.diff_ids)
    SBX_TRY(check_digest(diff_id));
  return image;
}

std::string platform_name(std::string_view os,
                          std::string_view architecture,
                          std::string_view variant) {
  std::string name = text::cat(os.empty() ? "linux" : os,
                               "/",
                               architecture.empty() ? std::string_view("unknown") : architecture);
  if (!variant.empty()) name += text::cat("/", variant);
  return text::escape(name);
}

int platform_rank(std::string_view os, std::string_view architecture, std::string_view variant) {
  if (!os.empty() && os != "linux") return 0;
  // What does not say is taken at its word that it is for everyone.
  if (!architecture.empty() && architecture != host_architecture()) return 0;
  for (const Variants& row : kVariants) {
    if (row.architecture != architecture) continue;
    const auto at = std::ranges::find(row.best_first, variant);
    if (at != row.best_first.end()) return 2 + static_cast<int>(row.best_first.end() - at);
    if (row.architecture == "amd64") return 0;
    break;
  }
  return variant.empty() ? 2 : 1;
}

}  // namespace sbx::image
