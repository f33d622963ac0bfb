// Values_named: maps whose keys are names, merged name by name: env, labels and services.
#include <algorithm>

#include "core/base/text.h"
#include "core/profile/rules.h"
#include "core/profile/values.h"

namespace sbx::profile {
namespace {

constexpr std::size_t kMostWords = 256;  // of a service's command

void put_variable(std::vector<EnvVar>& env, std::string_view name, std::string value) {
  const auto found =
      std::find_if(env.begin(), env.end(), [&](const EnvVar& each) { return each.name == name; });
  if (found == env.end()) {
    env.push_back(EnvVar{std::string(name), std::move(value)});
  } else {
    found->value = std::move(value);
  }
}

}  // namespace

void Reader::read_named(const Key& key,
                        const YamlNode& node,
                        void (Reader::*read_one)(std::string_view, Position, const YamlNode&),
                        std::string_view wants) {
  if (node.kind == YamlNode::Kind::kNull) {
    return complain(node, key.path, text::cat("has no value; write {} for none"));
  }
  if (node.kind != YamlNode::Kind::kMap) {
    return complain(node, key.path, text::cat("expected ", wants, ", not ", kind_name(node)));
  }
  for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const YamlNode& name = node.items[i];
    if (!name.is_scalar()) continue;  // reported with the YAML
    (this->*read_one)(name.text, name.at, node.items[i + 1]);
  }
}

bool Reader::read_env_value(const std::string& path, const YamlNode& value, std::string& out) {
  if (value.kind == YamlNode::Kind::kNull) {
    complain(value, path, "has no value; write \"\" for an empty one");
    return false;
  }
  if (!value.is_scalar()) {
    complain(value, path, text::cat("expected a text, not ", kind_name(value)));
    return false;
  }
  const std::string complaint = env_value_complaint(value.text);
  if (!complaint.empty()) {
    complain(value, path, complaint);
    return false;
  }
  out = value.text;
  return true;
}

void Reader::read_variable(std::string_view name, Position name_at, const YamlNode& value) {
  const std::string complaint = env_name_complaint(name);
  if (!complaint.empty()) {
    diagnostics_->add(name_at, text::cat("env: ", quoted(name), ' ', complaint));
    return;
  }
  const std::string path = text::cat("env.", name);
  std::string content;
  if (!read_env_value(path, value, content)) return;
  put_variable(profile_.env, name, std::move(content));
  set_origin(path, name_at);
}

void Reader::read_label(std::string_view name, Position name_at, const YamlNode& value) {
  const std::string complaint = label_name_complaint(name);
  if (!complaint.empty()) {
    diagnostics_->add(name_at, text::cat("labels: ", quoted(name), ' ', complaint));
    return;
  }
  const std::string path = text::cat("labels.", name);
  if (value.kind == YamlNode::Kind::kNull) {
    return complain(value, path, "has no value; write \"\" for an empty one");
  }
  if (!value.is_scalar()) {
    return complain(value, path, text::cat("expected a text, not ", kind_name(value)));
  }
  const std::string value_complaint = label_value_complaint(value.text);
  if (!value_complaint.empty()) return complain(value, path, value_complaint);
  profile_.labels.insert_or_assign(std::string(name), value.text);
  set_origin(path, name_at);
}

bool Reader::read_service_command(const std::string& path,
                                  const YamlNode& value,
                                  Service& service) {
  if (value.kind != YamlNode::Kind::kList) {
    std::string what = text::cat("expected a list, not ", kind_name(value));
    if (value.is_scalar()) what += "; write [PROGRAM, ARGUMENT], or [bash, -c, \"...\"]";
    complain(value, path, what);
    return false;
  }
  if (value.items.size() > kMostWords) {
    complain(value, path, text::cat("more than ", kMostWords, " words"));
    return false;
  }
  for (const YamlNode& word : value.items) {
    if (!word.is_scalar()) {
      complain(word, path, text::cat("expected a text, not ", kind_name(word)));
      return false;
    }
    const std::string complaint = argument_complaint(word.text);
    if (!complaint.empty()) {
      complain(word, path, text::cat(quoted(word.text), ' ', complaint));
      return false;
    }
    service.command.push_back(word.text);
  }
  if (!service.command.empty() && service.command.front().empty()) {
    complain(value, path, "the command itself must not be empty");
    return false;
  }
  return true;
}

bool Reader::read_service_restart(const std::string& path,
                                  const YamlNode& value,
                                  Service& service) {
  for (const Restart restart : {Restart::kNo, Restart::kOnFailure, Restart::kAlways}) {
    if (!value.is_scalar() || value.text != name(restart)) continue;
    service.restart = restart;
    return true;
  }
  complain(value,
           path,
           text::cat("expected no, on-failure or always, not ",
                     value.is_scalar() ? quoted(value.text) : std::string(kind_name(value))));
  return false;
}

bool Reader::read_service_env(const std::string& path, const YamlNode& value, Service& service) {
  if (value.kind != YamlNode::Kind::kMap) {
    complain(value, path, text::cat("expected a map, NAME: value, not ", kind_name(value)));
    return false;
  }
  bool is_good = true;
  for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
    const YamlNode& variable = value.items[i];
    if (!variable.is_scalar()) continue;  // reported with the YAML
    const std::string complaint = env_name_complaint(variable.text);
    std::string content;
    if (!complaint.empty()) {
      complain(variable, path, text::cat(quoted(variable.text), ' ', complaint));
      is_good = false;
    } else if (read_env_value(text::cat(path, '.', variable.text), value.items[i + 1], content)) {
      put_variable(service.env, variable.text, std::move(content));
    } else {
      is_good = false;
    }
  }
  return is_good;
}

void Reader::read_service(std::string_view name, Position name_at, const YamlNode& value) {
  const std::string complaint = service_name_complaint(name);
  if (!complaint.empty()) {
    diagnostics_->add(name_at, text::cat("services: ", quoted(name), ' ', complaint));
    return;
  }
  const std::string path = text::cat("services.", name);
  if (value.kind != YamlNode::Kind::kMap) {
    return complain(value,
                    path,
                    text::cat("expected a map with command, restart and env, not ",
                              kind_name(value),
                              "; write {command: [PROGRAM, ARGUMENT]}"));
  }
  Service service;
  service.name = std::string(name);
  bool is_good = true;
  bool has_command = false;
  for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
    const YamlNode& part = value.items[i];
    const YamlNode& inner = value.items[i + 1];
    if (!part.is_scalar()) continue;  // reported with the YAML
    const std::string inner_path = text::cat(path, '.', part.text);
    if (part.text == "command") {
      has_command = true;
      is_good = read_service_command(inner_path, inner, service) && is_good;
    } else if (part.text == "restart") {
      is_good = read_service_restart(inner_path, inner, service) && is_good;
    } else if (part.text == "env") {
      is_good = read_service_env(inner_path, inner, service) && is_good;
    } else {
      complain(
          part,
          path,
          text::cat("unknown key ", quoted(part.text), "; a service has command, restart and env"));
      is_good = false;
    }
  }
  const auto found = std::find_if(profile_.services.begin(),
                                  profile_.services.end(),
                                  [&](const Service& each) { return each.name == name; });
  const bool is_known = found != profile_.services.end();
  if (is_good && (!has_command || (service.command.empty() && !is_known))) {
    complain(value, path, "a service needs a command");
    is_good = false;
  }
  if (!is_good) return;
  if (service.command.empty()) {
    profile_.services.erase(found);
  } else if (is_known) {
    *found = std::move(service);
  } else {
    profile_.services.push_back(std::move(service));
  }
  set_origin(path, name_at);
}

}  // namespace sbx::profile
