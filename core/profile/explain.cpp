// Explain: the effective values of a profile with their origins, for people and for programs.
#include <algorithm>
#include <array>

#include "core/base/text.h"
#include "core/profile/keys.h"
#include "core/profile/profile.h"
#include "core/profile/show.h"

#include <nlohmann/json.hpp>

namespace sbx::profile {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHidden = "***";

/// Variables that tend to hold credentials. `env` is no place for them, but people do it.
bool looks_secret(std::string_view variable) {
  std::string upper;
  for (const char c : variable) {
    upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  constexpr std::array<std::string_view, 9> kWords{"TOKEN",
                                                   "SECRET",
                                                   "PASSWORD",
                                                   "PASSWD",
                                                   "PASSPHRASE",
                                                   "CREDENTIAL",
                                                   "API_KEY",
                                                   "APIKEY",
                                                   "PRIVATE_KEY"};
  const auto holds = [&](std::string_view word) { return upper.find(word) != std::string::npos; };
  return std::any_of(kWords.begin(), kWords.end(), holds) || upper.ends_with("_KEY");
}

std::string origin_text(const Profile& profile, std::string_view key) {
  const auto found = profile.origins.find(key);
  if (found == profile.origins.end()) return "default";
  const Origin& origin = found->second;
  if (origin.layer == Layer::kEnv || origin.layer == Layer::kFlag) return origin.where;
  return text::cat(name(origin.layer), ' ', origin.where);
}

struct Row {
  std::string key;
  std::string value;
  std::string origin;
};

/// "512M (536870912 bytes)".
struct WithUnits {
  std::string text;
  std::string operator()(const std::optional<Bytes>& bytes) const {
    return bytes ? text::cat(text, " (", bytes->v, " bytes)") : text;
  }
  template <typename T>
  std::string operator()(const T& /*value*/) const {
    return text;
  }
};

std::vector<Row> rows_of(const Profile& profile) {
  std::vector<Row> rows;
  for (const Key& key : keys()) {
    const std::string path(key.path);
    if (std::holds_alternative<std::monostate>(key.field)) continue;
    if (std::holds_alternative<Get<std::vector<EnvVar>>>(key.field)) {
      for (const EnvVar& each : profile.env) {
        std::string where = text::cat(path, '.', each.name);
        std::string origin = origin_text(profile, where);
        std::string value = looks_secret(each.name) ? std::string(kHidden) : each.value;
        rows.push_back(Row{std::move(where), std::move(value), std::move(origin)});
      }
    } else if (std::holds_alternative<Get<std::vector<Mount>>>(key.field)) {
      for (const Mount& each : profile.mounts) {
        rows.push_back(
            Row{path, show_mount(each), origin_text(profile, text::cat(path, '.', each.target))});
      }
    } else if (std::holds_alternative<Get<std::vector<Service>>>(key.field)) {
      for (const Service& each : profile.services) {
        std::string where = text::cat(path, '.', each.name);
        std::string origin = origin_text(profile, where);
        rows.push_back(Row{std::move(where), show_service(each), std::move(origin)});
      }
    } else if (std::holds_alternative<Get<Labels>>(key.field)) {
      for (const auto& [label, value] : profile.labels) {
        std::string where = text::cat(path, '.', label);
        std::string origin = origin_text(profile, where);
        rows.push_back(Row{std::move(where), value, std::move(origin)});
      }
    } else {
      const std::string shown = show_value(key, profile);
      rows.push_back(
          Row{path, visit_value(key, profile, WithUnits{shown}), origin_text(profile, key.path)});
    }
  }
  return rows;
}

struct ToJson {
  Json operator()(std::monostate /*extends*/) const { return nullptr; }
  Json operator()(const std::string& text) const { return text; }
  Json operator()(bool flag) const { return flag; }
  Json operator()(const HostTool& tool) const { return tool.path; }
  Json operator()(const HostPath& path) const { return path.path; }
  Json operator()(Isolation isolation) const { return name(isolation); }
  Json operator()(std::uint64_t count) const { return count; }
  Json operator()(std::uint32_t millis) const { return static_cast<double>(millis) / 1000; }
  Json operator()(Bytes bytes) const { return bytes.v; }
  Json operator()(Millis millis) const { return static_cast<double>(millis.v) / 1000; }
  Json operator()(const std::vector<std::string>& items) const { return items; }
  Json operator()(const std::vector<EnvVar>& variables) const {
    Json map = Json::object();
    for (const EnvVar& each : variables) {
      map[each.name] = looks_secret(each.name) ? std::string(kHidden) : each.value;
    }
    return map;
  }
  Json operator()(const std::vector<Mount>& mounts) const {
    Json list = Json::array();
    for (const Mount& each : mounts) {
      list.push_back(
          {{"source", each.source}, {"target", each.target}, {"mode", mode_name(each.mode)}});
    }
    return list;
  }
  Json operator()(const std::vector<Service>& services) const {
    Json map = Json::object();
    for (const Service& each : services) {
      map[each.name] = {
          {"command", each.command}, {"restart", name(each.restart)}, {"env", (*this)(each.env)}};
    }
    return map;
  }
  Json operator()(const Labels& labels) const {
    Json map = Json::object();
    for (const auto& [label, value] : labels) {
      map[label] = value;
    }
    return map;
  }
  template <typename T>
  Json operator()(const std::optional<T>& value) const {
    return value ? (*this)(*value) : Json(nullptr);
  }
};

}  // namespace

std::string explain(const Profile& profile) {
  const std::vector<Row> rows = rows_of(profile);
  constexpr std::size_t kMostPadding = 40;  // one long value must not push all origins away
  std::size_t key_width = 0;
  std::size_t value_width = 0;
  for (const Row& row : rows) {
    key_width = std::max(key_width, row.key.size());
    if (row.value.size() <= kMostPadding) value_width = std::max(value_width, row.value.size());
  }
  std::string out = text::cat("profile ", text::escape(profile.name));
  if (!profile.file.empty()) out += text::cat(" (", text::escape(profile.file), ')');
  out += '\n';
  for (const Row& row : rows) {
    const std::string value = text::escape(row.value);
    out += text::cat(row.key, std::string(key_width + 2 - row.key.size(), ' '), value);
    out += std::string(value.size() < value_width ? value_width - value.size() : 0, ' ');
    out += text::cat("  ", text::escape(row.origin), '\n');
  }
  return out;
}

std::string explain_json(const Profile& profile) {
  Json values = Json::object();
  for (const Key& key : keys()) {
    if (std::holds_alternative<std::monostate>(key.field)) continue;
    values[std::string(key.path)] = visit_value(key, profile, ToJson{});
  }
  Json origins = Json::object();
  for (const auto& [key, origin] : profile.origins) {
    origins[key] = {{"layer", name(origin.layer)},
                    {"where", origin.where},
                    {"explicit", profile.is_explicit(key)}};
  }
  const Json json{{"schema", 1},
                  {"name", profile.name},
                  {"file", profile.file.empty() ? Json(nullptr) : Json(profile.file)},
                  {"values", std::move(values)},
                  {"origins", std::move(origins)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sbx::profile
