// Saved: see saved.h. One case per C++ type of a field, over the table of keys.
#include "core/profile/saved.h"

#include <array>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/profile/keys.h"
#include "core/profile/show.h"

#include <nlohmann/json.hpp>

namespace sbx::profile {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kLastMountMode = static_cast<int>(MountMode::kOverlay);

/// Text that is no UTF-8 (a path) goes as a list of its bytes.
Json put(const std::string& text) {
  if (text::is_utf8(text)) return text;
  Json bytes = Json::array();
  for (const char c : text) {
    bytes.push_back(static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return bytes;
}
Json put(bool flag) {
  return flag;
}
Json put(std::uint64_t number) {
  return number;
}
Json put(std::uint32_t number) {
  return number;
}
Json put(Bytes bytes) {
  return bytes.v;
}
Json put(Millis millis) {
  return millis.v;
}
Json put(Isolation isolation) {
  return name(isolation);
}
Json put(const HostTool& tool) {
  return {{"path", put(tool.path)}, {"beneath", put(tool.beneath)}};
}
Json put(const HostPath& path) {
  return {{"path", put(path.path)}, {"beneath", put(path.beneath)}};
}
Json put(const ListItem& item) {
  return {{"variable", put(item.variable)}, {"item", put(item.item)}, {"first", item.is_first}};
}
Json put(const EnvVar& variable) {
  return {{"name", put(variable.name)}, {"value", put(variable.value)}};
}
Json put(const Mount& mount) {
  return {{"source", put(mount.source)},
          {"target", put(mount.target)},
          {"mode", static_cast<int>(mount.mode)},
          {"beneath", put(mount.beneath)}};
}
Json put(const Service& service);
Json put(const Labels& labels) {
  Json map = Json::object();
  for (const auto& [label, value] : labels) {
    map[label] = put(value);
  }
  return map;
}
template <typename T>
Json put(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) {
    list.push_back(put(item));
  }
  return list;
}
template <typename T>
Json put(const std::optional<T>& value) {
  return value.has_value() ? put(*value) : Json(nullptr);
}
Json put(const Service& service) {
  return {{"name", put(service.name)},
          {"command", put(service.command)},
          {"restart", name(service.restart)},
          {"env", put(service.env)}};
}

const Json* member(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto at = json.find(key);
  return at == json.end() ? nullptr : &*at;
}

// Each takes a value of its type; false: it is none.
bool take(const Json& json, std::string& into) {
  constexpr unsigned kMost = 255;
  into.clear();
  if (json.is_string()) {
    into = json.get<std::string>();
    return true;
  }
  if (!json.is_array()) return false;
  for (const Json& byte : json) {
    if (!byte.is_number_unsigned() || byte.get<std::uint64_t>() > kMost) return false;
    into.push_back(static_cast<char>(byte.get<unsigned>()));
  }
  return true;
}
bool take(const Json& json, bool& into) {
  if (!json.is_boolean()) return false;
  into = json.get<bool>();
  return true;
}
template <typename Number>
requires std::is_integral_v<Number>
bool take(const Json& json, Number& into) {
  if (!json.is_number_integer()) return false;
  into = json.get<Number>();
  return true;
}
bool take(const Json& json, Bytes& into) {
  return take(json, into.v);
}
bool take(const Json& json, Millis& into) {
  return take(json, into.v);
}
bool take(const Json& json, Isolation& into) {
  for (const Isolation each : {Isolation::kJail, Isolation::kVm, Isolation::kAuto}) {
    if (json.is_string() && json.get<std::string>() == name(each)) {
      into = each;
      return true;
    }
  }
  return false;
}
bool take(const Json& json, Restart& into) {
  for (const Restart each : {Restart::kNo, Restart::kOnFailure, Restart::kAlways}) {
    if (json.is_string() && json.get<std::string>() == name(each)) {
      into = each;
      return true;
    }
  }
  return false;
}
bool take(const Json& json, Service& into);
template <typename T>
bool take_member(const Json& json, const char* key, T& into) {
  const Json* const value = member(json, key);
  return value != nullptr && take(*value, into);
}
bool take(const Json& json, HostTool& into) {
  return take_member(json, "path", into.path) && take_member(json, "beneath", into.beneath);
}
bool take(const Json& json, HostPath& into) {
  return take_member(json, "path", into.path) && take_member(json, "beneath", into.beneath);
}
bool take(const Json& json, ListItem& into) {
  return take_member(json, "variable", into.variable) && take_member(json, "item", into.item) &&
         take_member(json, "first", into.is_first);
}
bool take(const Json& json, EnvVar& into) {
  return take_member(json, "name", into.name) && take_member(json, "value", into.value);
}
bool take(const Json& json, Mount& into) {
  int mode = -1;
  const bool is_whole =
      take_member(json, "source", into.source) && take_member(json, "target", into.target) &&
      take_member(json, "mode", mode) && take_member(json, "beneath", into.beneath);
  if (!is_whole || mode < 0 || mode > kLastMountMode) return false;
  into.mode = static_cast<MountMode>(mode);
  return true;
}
template <typename T>
bool take(const Json& json, std::vector<T>& into) {
  into.clear();
  if (!json.is_array()) return false;
  for (const Json& item : json) {
    if (!take(item, into.emplace_back())) return false;
  }
  return true;
}
template <typename T>
bool take(const Json& json, std::optional<T>& into) {
  into.reset();
  return json.is_null() || take(json, into.emplace());
}
bool take(const Json& json, Labels& into) {
  into.clear();
  if (!json.is_object()) return false;
  for (const auto& [label, value] : json.items()) {
    if (!take(value, into[label])) return false;
  }
  return true;
}
bool take(const Json& json, Service& into) {
  const auto take_list = [&](const char* key, auto& list) {
    const Json* const value = member(json, key);
    return value != nullptr && take(*value, list);
  };
  return take_member(json, "name", into.name) && take_list("command", into.command) &&
         !into.command.empty() && take_member(json, "restart", into.restart) &&
         take_list("env", into.env);
}

bool take_key(const Key& key, const Json& json, Profile& profile) {
  return std::visit(
      [&](auto get) {
        if constexpr (std::is_same_v<decltype(get), std::monostate>) {
          return true;
        } else {
          return take(json, get(profile));
        }
      },
      key.field);
}

Error rubbish(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("the saved profile: ", what));
}

bool take_origins(const Json& json, Profile& profile) {
  if (!json.is_object()) return false;
  for (const auto& [key, value] : json.items()) {
    Origin origin;
    int layer = -1;
    if (!take_member(value, "layer", layer) || !take_member(value, "where", origin.where)) {
      return false;
    }
    if (layer < 0 || layer > static_cast<int>(Layer::kFlag)) return false;
    origin.layer = static_cast<Layer>(layer);
    profile.origins.insert_or_assign(key, std::move(origin));
  }
  return true;
}

}  // namespace

std::string save(const Profile& profile) {
  Json keys = Json::object();
  for (const Key& key : profile::keys()) {
    if (std::holds_alternative<std::monostate>(key.field)) continue;
    keys[std::string(key.path)] = visit_value(key, profile, [](const auto& value) -> Json {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
        return nullptr;
      } else {
        return put(value);
      }
    });
  }
  Json origins = Json::object();
  for (const auto& [key, origin] : profile.origins) {
    // A mount's target may be no UTF-8; nobody asks where it came from.
    if (!text::is_utf8(key)) continue;
    origins[key] = {{"layer", static_cast<int>(origin.layer)}, {"where", put(origin.where)}};
  }
  const Json json{{"name", put(profile.name)},
                  {"file", put(profile.file)},
                  {"keys", keys},
                  {"list_items", put(profile.list_items)},
                  {"origins", origins}};
  return json.dump();
}

Result<Profile> restore(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  Profile profile;
  const Json* const keys = member(json, "keys");
  const Json* const origins = member(json, "origins");
  if (keys == nullptr || !keys->is_object() || origins == nullptr ||
      !take_member(json, "name", profile.name) || !take_member(json, "file", profile.file)) {
    return rubbish("it lacks a part");
  }
  for (const auto& [path, value] : keys->items()) {
    const Key* const key = find_key(path);
    if (key == nullptr) return rubbish(text::cat("this sbx does not know ", text::escape(path)));
    if (!take_key(*key, value, profile)) {
      return rubbish(text::cat("a value of another kind at ", path));
    }
  }
  if (!take_origins(*origins, profile)) return rubbish("its origins");
  // One that was saved before there were packages has none.
  const Json* const items = member(json, "list_items");
  if (items != nullptr && !take(*items, profile.list_items)) return rubbish("its list_items");
  return profile;
}

}  // namespace sbx::profile
