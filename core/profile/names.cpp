// Names: words for enumerators, the environment, and small queries on a Profile.
#include <cstdlib>

#include "core/profile/profile.h"

namespace sbx::profile {

std::string_view name(Isolation isolation) {
  switch (isolation) {
    case Isolation::kJail:
      return "jail";
    case Isolation::kVm:
      return "vm";
    case Isolation::kAuto:
      return "auto";
  }
  return "?";
}

std::string_view name(Restart restart) {
  switch (restart) {
    case Restart::kNo:
      return "no";
    case Restart::kOnFailure:
      return "on-failure";
    case Restart::kAlways:
      return "always";
  }
  return "?";
}

std::string_view name(Layer layer) {
  switch (layer) {
    case Layer::kBuiltin:
      return "shipped";
    case Layer::kSystem:
      return "system";
    case Layer::kUser:
      return "user";
    case Layer::kFile:
      return "file";
    case Layer::kEnv:
      return "environment";
    case Layer::kFlag:
      return "flag";
  }
  return "?";
}

bool Profile::is_explicit(std::string_view key) const {
  const auto found = origins.find(key);
  return found != origins.end() && found->second.layer != Layer::kBuiltin;
}

std::optional<std::string> process_env(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace sbx::profile
