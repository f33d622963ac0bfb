// Show: one small writer per C++ type of a field.
#include "core/profile/show.h"

#include <vector>

#include "core/base/text.h"

namespace sbx::profile {
namespace {

struct ShowField {
  std::string operator()(std::monostate /*extends*/) const { return {}; }
  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(Isolation isolation) const { return std::string(name(isolation)); }
  std::string operator()(const HostTool& tool) const { return tool.path; }
  std::string operator()(const HostPath& path) const { return path.path; }
  std::string operator()(std::uint64_t count) const { return std::to_string(count); }
  std::string operator()(std::uint32_t millis) const { return show_cpus(millis); }
  std::string operator()(Bytes bytes) const { return to_string(bytes); }
  std::string operator()(Millis millis) const { return to_string(millis); }
  std::string operator()(const std::vector<std::string>& items) const { return list(items); }
  std::string operator()(const std::vector<EnvVar>& variables) const {
    std::vector<std::string> names;
    names.reserve(variables.size());
    for (const EnvVar& each : variables) {
      names.push_back(each.name);
    }
    return list(names);
  }
  std::string operator()(const std::vector<Mount>& mounts) const {
    std::vector<std::string> texts;
    texts.reserve(mounts.size());
    for (const Mount& mount : mounts) {
      texts.push_back(show_mount(mount));
    }
    return list(texts);
  }
  std::string operator()(const std::vector<Service>& services) const {
    std::vector<std::string> names;
    names.reserve(services.size());
    for (const Service& each : services) {
      names.push_back(each.name);
    }
    return map(names);
  }
  std::string operator()(const Labels& labels) const {
    std::vector<std::string> texts;
    texts.reserve(labels.size());
    for (const auto& [name, value] : labels) {
      texts.push_back(text::cat(name, ": ", value));
    }
    return map(texts);
  }
  template <typename T>
  std::string operator()(const std::optional<T>& value) const {
    return value ? (*this)(*value) : std::string("unlimited");
  }

 private:
  static std::string list(const std::vector<std::string>& items) {
    return text::cat('[', text::join(items, ", "), ']');
  }
  static std::string map(const std::vector<std::string>& items) {
    return text::cat('{', text::join(items, ", "), '}');
  }
};

}  // namespace

std::string show_cpus(std::uint32_t millis) {
  std::string out = std::to_string(millis / 1000);
  if (millis % 1000 == 0) return out;
  std::string decimals = std::to_string(1000 + millis % 1000).substr(1);
  decimals.resize(decimals.find_last_not_of('0') + 1);
  return text::cat(out, '.', decimals);
}

std::string show_mount(const Mount& mount) {
  const std::string_view mode = mode_name(mount.mode);
  if (mount.source.find(':') == std::string::npos && mount.target.find(':') == std::string::npos) {
    return text::cat(mount.source, ':', mount.target, ':', mode);
  }
  return text::cat("src=", mount.source, ",dst=", mount.target, ",mode=", mode);
}

std::string show_service(const Service& service) {
  std::string out = text::cat('[', text::join(service.command, ", "), ']');
  if (service.restart != Restart::kNo) out += text::cat(", restart ", name(service.restart));
  std::string_view before = ", with ";
  for (const EnvVar& each : service.env) {
    out += text::cat(before, each.name);
    before = " ";
  }
  return out;
}

std::string show_value(const Key& key, const Profile& profile) {
  return visit_value(key, profile, ShowField{});
}

}  // namespace sbx::profile
