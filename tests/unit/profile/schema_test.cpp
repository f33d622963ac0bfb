// Schema test: the JSON Schema has every key and accepts the shipped profiles' shapes.
#include <string>
#include <utility>

#include "core/profile/keys.h"

#include "tests/unit/profile/support.h"
#include <nlohmann/json.hpp>

using namespace sbx::profile;
using Json = nlohmann::json;

TEST_CASE("schema: every key is there with its description, unknown ones are refused") {
  const Json schema = Json::parse(schema_json());
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema["additionalProperties"] == false);
  std::size_t leaves = 0;
  for (const Key& key : keys()) {
    CAPTURE(key.path);
    const std::size_t dot = key.path.find('.');
    const std::string first(key.path.substr(0, dot));
    REQUIRE(schema["properties"].contains(first));
    Json node = schema["properties"][first];
    if (dot != std::string_view::npos) {
      CHECK(node["additionalProperties"] == false);
      const std::string second(key.path.substr(dot + 1));
      REQUIRE(node["properties"].contains(second));
      Json inner = node["properties"][second];
      node = std::move(inner);
    }
    CHECK(node["description"] == key.doc);
    CHECK((node.contains("type") || node.contains("enum") || node.contains("anyOf")));
    ++leaves;
  }
  CHECK(leaves == key_infos().size());
}

TEST_CASE("schema: alternatives are lists of schemas, patterns are strings") {
  const Json schema = Json::parse(schema_json());
  const Json& memory = schema["properties"]["limits"]["properties"]["memory"];
  REQUIRE(memory["anyOf"].is_array());
  REQUIRE(memory["anyOf"].size() == 2);
  CHECK(memory["anyOf"][0]["type"] == "string");
  CHECK(memory["anyOf"][1]["minimum"] == 4194304);
  const Json& mounts = schema["properties"]["mounts"]["items"]["anyOf"];
  REQUIRE(mounts.is_array());
  CHECK(mounts[1]["required"] == Json::parse(R"(["source","target"])"));
  CHECK(schema["properties"]["isolation"]["enum"] == Json::parse(R"(["jail","vm","auto"])"));
  CHECK(schema["properties"]["limits"]["properties"]["pids"]["anyOf"][1]["const"] == "unlimited");
  CHECK(schema["properties"]["env"]["additionalProperties"]["type"].is_array());
  const Json& service = schema["properties"]["services"]["additionalProperties"];
  CHECK(service["required"] == Json::parse(R"(["command"])"));
  CHECK(service["properties"]["restart"]["enum"] == Json::parse(R"(["no","on-failure","always"])"));
  CHECK(service["properties"]["env"]["propertyNames"].contains("pattern"));
}
