// State JSON: what those source files share that write JSON into the state directory. It knows no
// JSON library: they hand in its type.
#pragma once

#include <optional>
#include <string>

#include "core/confine/process_identity.h"

namespace sbx::run {

inline constexpr int kStateFormat = 1;

/// One line; bytes that are no UTF-8 are replaced.
template <typename Json>
std::string dump_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Reads members of an object; one that is missing or of another type spoils the whole.
template <typename Json>
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object), ok_(object.is_object()) {}

  template <typename T>
  void number(const char* key, T& into) {
    const Json* const value = find(key);
    if (value != nullptr && value->is_number()) {
      into = value->template get<T>();
    } else {
      ok_ = false;
    }
  }
  void text(const char* key, std::string& into) {
    const Json* const value = find(key);
    if (value != nullptr && value->is_string()) {
      into = value->template get<std::string>();
    } else {
      ok_ = false;
    }
  }
  /// Null when there is none.
  const Json* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto at = object_.find(key);
    return at == object_.end() ? nullptr : &*at;
  }
  bool ok() const { return ok_; }

 private:
  const Json& object_;
  bool ok_;
};

template <typename Json>
Json identity_json(const confine::ProcessIdentity& process) {
  return {{"pid", process.pid},
          {"start", process.start},
          {"pid_namespace", process.pid_namespace},
          {"boot", process.boot}};
}

template <typename Json>
std::optional<confine::ProcessIdentity> read_identity(const Json* object) {
  if (object == nullptr) return std::nullopt;
  confine::ProcessIdentity out;
  Reader<Json> reader(*object);
  reader.number("pid", out.pid);
  reader.number("start", out.start);
  reader.number("pid_namespace", out.pid_namespace);
  reader.text("boot", out.boot);
  if (!reader.ok() || out.pid <= 0) return std::nullopt;
  return out;
}

}  // namespace sbx::run
