// Schema: the key table as a JSON Schema (2020-12), for completion and checking in editors.
#include "core/base/text.h"
#include "core/profile/keys.h"
#include "core/profile/profile.h"

#include <nlohmann/json.hpp>

namespace sbx::profile {
namespace {

using Json = nlohmann::ordered_json;

/// The schema of one value. Patterns are weaker than the checks of sbx, never stricter.
struct FieldSchema {
  const Key& key;

  Json operator()(std::monostate /*extends*/) const { return text(); }
  Json operator()(Get<std::string> /*get*/) const { return text(); }
  Json operator()(Get<bool> /*get*/) const { return {{"type", "boolean"}}; }
  Json operator()(Get<Isolation> /*get*/) const {
    return {{"enum", {name(Isolation::kJail), name(Isolation::kVm), name(Isolation::kAuto)}}};
  }
  Json operator()(Get<HostTool> /*get*/) const { return text(); }
  Json operator()(Get<HostPath> /*get*/) const { return text(); }
  Json operator()(Get<std::uint64_t> /*get*/) const { return count(); }
  Json operator()(Get<std::optional<std::uint64_t>> /*get*/) const { return or_unlimited(count()); }
  Json operator()(Get<std::optional<Bytes>> /*get*/) const {
    Json number = count();
    Json size{{"type", "string"},
              {"pattern", "^(0|[1-9][0-9]*)([KMGTkmgt]([iI]?[bB])?)?$|^unlimited$"},
              {"examples", {"512M", "2G", "unlimited"}}};
    return {{"anyOf", {std::move(size), std::move(number)}}};
  }
  Json operator()(Get<std::optional<Millis>> /*get*/) const {
    return {{"type", "string"},
            {"pattern", "^(0|[1-9][0-9]*)(ms|s|m|h|d)$|^unlimited$"},
            {"examples", {"30s", "5m", "unlimited"}}};
  }
  Json operator()(Get<std::optional<std::uint32_t>> /*get*/) const {
    return or_unlimited({{"type", "number"},
                         {"minimum", static_cast<double>(key.range.least) / 1000},
                         {"maximum", static_cast<double>(key.range.most) / 1000}});
  }
  Json operator()(Get<std::vector<std::string>> /*get*/) const {
    return {{"type", "array"}, {"items", text()}};
  }
  Json operator()(Get<std::vector<EnvVar>> /*get*/) const {
    return {{"type", "object"},
            {"propertyNames", {{"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}}},
            {"additionalProperties", {{"type", {"string", "number", "boolean"}}}}};
  }
  Json operator()(Get<std::vector<Mount>> /*get*/) const {
    const Json as_text{{"type", "string"}, {"examples", {"./data:/data:ro"}}};
    const Json as_map{{"type", "object"},
                      {"properties",
                       {{"source", {{"type", "string"}}},
                        {"target", {{"type", "string"}, {"pattern", "^/"}}},
                        {"mode", {{"enum", {"ro", "rw", "overlay"}}}}}},
                      {"required", {"source", "target"}},
                      {"additionalProperties", false}};
    return {{"type", "array"}, {"items", {{"anyOf", {as_text, as_map}}}}};
  }
  Json operator()(Get<std::vector<Service>> /*get*/) const {
    const Json argv{{"type", "array"}, {"items", {{"type", "string"}}}};
    const Json restart{
        {"enum", {name(Restart::kNo), name(Restart::kOnFailure), name(Restart::kAlways)}}};
    const Json service{
        {"type", "object"},
        {"properties",
         {{"command", argv}, {"restart", restart}, {"env", (*this)(Get<std::vector<EnvVar>>())}}},
        {"required", Json::array({"command"})},
        {"additionalProperties", false}};
    return {{"type", "object"},
            {"propertyNames", {{"pattern", key.pattern}}},
            {"additionalProperties", service}};
  }
  Json operator()(Get<Labels> /*get*/) const {
    return {{"type", "object"},
            {"propertyNames", {{"pattern", key.pattern}}},
            {"additionalProperties", {{"type", {"string", "number", "boolean"}}}}};
  }

 private:
  Json text() const {
    Json schema{{"type", "string"}};
    if (!key.pattern.empty()) schema["pattern"] = key.pattern;
    return schema;
  }
  Json count() const {
    return {{"type", "integer"}, {"minimum", key.range.least}, {"maximum", key.range.most}};
  }
  static Json or_unlimited(Json number) {
    return {{"anyOf", {std::move(number), {{"const", "unlimited"}}}}};
  }
};

std::string_view doc_of_group(std::string_view group) {
  if (group == "limits") return "what the sandbox may use up";
  if (group == "packages") return "packages that are added to what the root has";
  return group == "session" ? "what a session does by itself" : "how code is run";
}

Json empty_map(std::string_view doc) {
  return {{"type", "object"},
          {"description", doc},
          {"properties", Json::object()},
          {"additionalProperties", false}};
}

}  // namespace

std::string schema_json() {
  Json schema = empty_map("what a sandbox is to be like");
  Json& properties = schema["properties"];
  for (const Key& key : keys()) {
    Json value{{"description", key.doc}};
    value.update(std::visit(FieldSchema{key}, key.field));
    const std::size_t dot = key.path.find('.');
    if (dot == std::string_view::npos) {
      properties[std::string(key.path)] = std::move(value);
      continue;
    }
    Json& group = properties[std::string(key.path.substr(0, dot))];
    if (group.is_null()) {
      group = empty_map(doc_of_group(key.path.substr(0, dot)));
    }
    group["properties"][std::string(key.path.substr(dot + 1))] = std::move(value);
  }
  Json out{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "sbx profile"}};
  out.update(schema);
  return out.dump(2);
}

}  // namespace sbx::profile
