// Merge: walks trees and flags, and hands each value to the reader of its key.
#include "core/profile/merge.h"

#include <iterator>

#include "core/base/text.h"
#include "core/profile/keys.h"
#include "core/profile/rules.h"

namespace sbx::profile {
namespace {

std::string_view example_below(std::string_view group) {
  if (group == "limits") return "memory: 512M";
  if (group == "packages") return "pip: [numpy]";
  return group == "session" ? "ttl: 7d" : "main: main.py";
}

void merge_map(const YamlNode& map,
               std::string_view group,
               Reader& reader,
               Diagnostics& diagnostics) {
  for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
    const YamlNode& key = map.items[i];
    const YamlNode& value = map.items[i + 1];
    if (!key.is_scalar() || (key.text == "<<" && !key.is_quoted)) continue;  // reported already
    const std::string path = group.empty() ? key.text : text::cat(group, '.', key.text);
    const Key* row = key.text.find('.') == std::string::npos ? find_key(path) : nullptr;
    if (row != nullptr) {
      reader.read(*row, value, Put::kReplace);
    } else if (!group.empty() || !is_group(path)) {
      diagnostics.add(key.at, unknown_key(group, key.text));
    } else if (value.kind == YamlNode::Kind::kMap) {
      merge_map(value, path, reader, diagnostics);
    } else {
      diagnostics.add(value.at,
                      text::cat(path,
                                ": expected keys below it, such as \"",
                                path,
                                ":\" and on "
                                "the next line \"  ",
                                example_below(path),
                                "\""));
    }
  }
}

YamlNode scalar(std::string_view value) {
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.text = std::string(value);
  return node;
}

bool is_list_or_map(const Key& key) {
  return std::holds_alternative<Get<std::vector<std::string>>>(key.field) ||
         std::holds_alternative<Get<std::vector<EnvVar>>>(key.field) ||
         std::holds_alternative<Get<std::vector<Mount>>>(key.field) ||
         std::holds_alternative<Get<std::vector<Service>>>(key.field) ||
         std::holds_alternative<Get<Labels>>(key.field);
}

/// One item of a map by its name: "env.NAME", "labels.NAME", "services.NAME" with a map in flow
/// form.
bool merge_named(const Override& override, Reader& reader, Diagnostics& diagnostics) {
  const std::string_view key = override.key;
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view map = key.substr(0, dot);
  const std::string_view name = key.substr(dot + 1);
  if (map == "env") {
    reader.read_variable(name, {}, scalar(override.value));
  } else if (map == "labels") {
    reader.read_label(name, {}, scalar(override.value));
  } else if (map == "services") {
    const std::string_view value = text::trim(override.value);
    const YamlNode node =
        value.starts_with('{') ? parse_yaml_flow(value, diagnostics) : scalar(value);
    if (diagnostics.empty()) reader.read_service(name, {}, node);
  } else {
    return false;
  }
  return true;
}

void merge_override(const Override& override, Reader& reader, Diagnostics& diagnostics) {
  if (merge_named(override, reader, diagnostics)) return;
  const Key* key = find_key(override.key);
  if (key == nullptr) {
    const std::size_t dot = override.key.find('.');
    const std::string group = dot == std::string::npos ? "" : override.key.substr(0, dot);
    if (is_group(override.key)) {
      diagnostics.add({},
                      text::cat("\"",
                                override.key,
                                "\" holds other keys: name one of them, ",
                                override.key,
                                ".KEY=VALUE"));
    } else if (is_group(group)) {
      diagnostics.add({}, unknown_key(group, std::string_view(override.key).substr(dot + 1)));
    } else {
      diagnostics.add({}, unknown_key("", override.key));
    }
    return;
  }
  if (std::holds_alternative<std::monostate>(key->field)) {
    return diagnostics.add({}, text::cat(key->path, " can only stand in a profile file"));
  }
  if (override.mode == Override::Mode::kAdd || !is_list_or_map(*key)) {
    return reader.read(*key, scalar(override.value), Put::kAdd);
  }
  const std::string_view value = text::trim(override.value);
  if (value.starts_with('[') || value.starts_with('{')) {
    const YamlNode node = parse_yaml_flow(value, diagnostics);
    if (diagnostics.empty()) reader.read(*key, node, Put::kReplace);
    return;
  }
  if (std::holds_alternative<Get<std::vector<EnvVar>>>(key->field) ||
      std::holds_alternative<Get<Labels>>(key->field)) {
    return diagnostics.add(
        {}, text::cat("expected ", key->path, ".NAME=VALUE, or ", key->path, "={NAME: value}"));
  }
  if (std::holds_alternative<Get<std::vector<Service>>>(key->field)) {
    return diagnostics.add({}, "expected services.NAME={command: [PROGRAM, ARGUMENT]}");
  }
  YamlNode list;
  list.kind = YamlNode::Kind::kList;
  list.items.push_back(scalar(override.value));
  reader.read(*key, list, Put::kReplace);
}

void move_to(std::vector<Diagnostic>& all, Diagnostics& found) {
  std::vector<Diagnostic> taken = found.take();
  all.insert(
      all.end(), std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end()));
}

}  // namespace

const YamlNode* find_value(const YamlNode& root, std::string_view key) {
  if (root.kind != YamlNode::Kind::kMap) return nullptr;
  for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
    if (root.items[i].is_scalar() && root.items[i].text == key) return &root.items[i + 1];
  }
  return nullptr;
}

void merge_file(const YamlNode& root,
                const Source& source,
                Profile& profile,
                Diagnostics& diagnostics) {
  if (root.kind == YamlNode::Kind::kNull) return;  // reported with the YAML
  if (root.kind != YamlNode::Kind::kMap) {
    diagnostics.add(root.at, "a profile is a map of keys, such as \"extends: base\"");
    return;
  }
  Reader reader(source, profile, diagnostics);
  merge_map(root, "", reader, diagnostics);
}

void merge_variables(const EnvLookup& env, Profile& profile, std::vector<Diagnostic>& mistakes) {
  for (const Key& key : keys()) {
    if (key.env.empty()) continue;
    const std::string variable(key.env);
    const std::optional<std::string> value = env(variable);
    if (!value || value->empty()) continue;
    Diagnostics found(variable);
    Source source;
    source.layer = Layer::kEnv;
    source.file = variable;
    Reader(std::move(source), profile, found).read(key, scalar(*value), Put::kAdd);
    move_to(mistakes, found);
  }
}

void merge_overrides(std::span<const Override> overrides,
                     const Source& source,
                     Profile& profile,
                     std::vector<Diagnostic>& mistakes) {
  if (overrides.empty()) return;
  Diagnostics none("");
  Reader reader(source, profile, none);
  for (const Override& override : overrides) {
    Diagnostics found(override.where);
    reader.switch_to(override.where, found);
    merge_override(override, reader, found);
    move_to(mistakes, found);
  }
}

}  // namespace sbx::profile
