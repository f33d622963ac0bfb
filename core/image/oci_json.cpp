// OCI JSON: see oci_json.h.
#include "core/image/oci_json.h"

#include <array>
#include <ctime>

#include "core/base/text.h"

#include <nlohmann/json.hpp>

namespace sbx::image {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// RFC 3339, UTC.
std::string time_text(std::int64_t ns) {
  const std::time_t seconds = ns / kNsPerSecond;
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "1970-01-01T00:00:00Z";
  std::array<char, 40> out{};
  const std::size_t size = std::strftime(out.data(), out.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {out.data(), size};
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// {"a":{},"b":{}}, as OCI writes sets.
Json set_of(const std::vector<std::string>& items) {
  Json out = Json::object();
  for (const std::string& item : items) {
    out[item] = Json::object();
  }
  return out;
}

Json config_of(const Config& config) {
  Json out = Json::object();
  if (!config.user.empty()) out["User"] = config.user;
  if (!config.exposed_ports.empty()) out["ExposedPorts"] = set_of(config.exposed_ports);
  if (!config.env.empty()) out["Env"] = config.env;
  if (!config.entrypoint.empty()) out["Entrypoint"] = config.entrypoint;
  if (!config.cmd.empty()) out["Cmd"] = config.cmd;
  if (!config.volumes.empty()) out["Volumes"] = set_of(config.volumes);
  if (!config.workdir.empty()) out["WorkingDir"] = config.workdir;
  if (!config.labels.empty()) {
    Json labels = Json::object();
    for (const auto& [key, value] : config.labels) {
      labels[key] = value;
    }
    out["Labels"] = labels;
  }
  if (!config.stop_signal.empty()) out["StopSignal"] = config.stop_signal;
  return out;
}

Json descriptor(const Blob& blob) {
  return {{"mediaType", blob.media_type},
          {"digest", text::cat("sha256:", blob.sha256)},
          {"size", blob.size}};
}

bool is_lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/// Lower-case letters and digits, with single '.', '_', '-' or '/' between them.
std::string repository_of(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (is_lower_or_digit(c)) {
      out += c;
      continue;
    }
    const bool is_separator = c == '.' || c == '_' || c == '-' || c == '/' || c == ':';
    if (out.empty() || !is_lower_or_digit(out.back())) continue;
    out += is_separator ? c : '-';
  }
  while (!out.empty() && !is_lower_or_digit(out.back())) {
    out.pop_back();
  }
  return out.empty() ? "image" : out;
}

std::string tag_of(std::string_view text) {
  constexpr std::size_t kLongest = 128;
  std::string out;
  for (const char c : text.substr(0, kLongest)) {
    const bool is_plain = is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '_';
    const bool may_follow = !out.empty() && (c == '.' || c == '-');
    out += is_plain || may_follow ? c : '_';
  }
  return out.empty() ? "latest" : out;
}

}  // namespace

std::string Blob::path() const {
  return text::cat("blobs/sha256/", sha256);
}

std::string config_document(const Record& record, std::span<const std::string> diff_ids) {
  const std::string created = time_text(record.created_ns);
  Json history = Json::array();
  for (std::size_t i = 0; i < diff_ids.size(); ++i) {
    history.push_back({{"created", created}, {"created_by", "sbx"}});
  }
  Json out = {{"created", created}, {"architecture", record.architecture}};
  if (!record.variant.empty()) out["variant"] = record.variant;
  out["os"] = record.os;
  out["config"] = config_of(record.config);
  out["rootfs"] = {{"type", "layers"},
                   {"diff_ids", std::vector<std::string>(diff_ids.begin(), diff_ids.end())}};
  out["history"] = history;
  return dump(out);
}

std::string manifest_document(const Blob& config, std::span<const Blob> layers) {
  Json list = Json::array();
  for (const Blob& layer : layers) {
    list.push_back(descriptor(layer));
  }
  return dump({{"schemaVersion", 2},
               {"mediaType", kManifestType},
               {"config", descriptor(config)},
               {"layers", list}});
}

std::string index_document(const Record& record, const Blob& manifest) {
  const Reference reference = reference_of(record.name);
  Json entry = descriptor(manifest);
  entry["platform"] = {{"architecture", record.architecture}, {"os", record.os}};
  if (!record.variant.empty()) entry["platform"]["variant"] = record.variant;
  entry["annotations"] = {{"org.opencontainers.image.ref.name", reference.tag}};
  return dump({{"schemaVersion", 2},
               {"mediaType", "application/vnd.oci.image.index.v1+json"},
               {"manifests", Json::array({entry})}});
}

std::string docker_document(const Record& record,
                            const std::string& config,
                            std::span<const std::string> layers) {
  const Reference reference = reference_of(record.name);
  const Json image = {
      {"Config", config},
      {"RepoTags", Json::array({text::cat(reference.repository, ":", reference.tag)})},
      {"Layers", std::vector<std::string>(layers.begin(), layers.end())}};
  return dump(Json::array({image}));
}

Reference reference_of(std::string_view name) {
  name = name.substr(0, name.find('@'));
  const std::size_t colon = name.rfind(':');
  const std::size_t slash = name.rfind('/');
  const bool has_tag =
      colon != std::string_view::npos && (slash == std::string_view::npos || slash < colon);
  Reference reference;
  reference.repository = repository_of(has_tag ? name.substr(0, colon) : name);
  reference.tag = has_tag ? tag_of(name.substr(colon + 1)) : "latest";
  return reference;
}

}  // namespace sbx::image
