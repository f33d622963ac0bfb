// Verb profile schema: the JSON Schema of profile files.
#include <array>

#include "cli/output.h"
#include "cli/verbs.h"
#include "core/profile/profile.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx profile schema [--keys]"};
constexpr std::array<Flag, 1> kFlags = {{
    {.name = "keys", .help = "Only the keys that --set takes, one a line (completions use it)"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx profile schema > sbx-profile.schema.json", "for an editor's YAML plug-in"},
    {"sbx profile schema --keys", "what can be set"},
}};

int print_schema(const Invocation& given) {
  if (given.has("keys")) {
    std::string keys;
    for (const profile::KeyInfo& key : profile::key_infos()) {
      keys += key.path;
      keys += '\n';
    }
    return printed(print(keys));
  }
  std::string schema = profile::schema_json();
  if (!schema.ends_with('\n')) schema += '\n';
  return printed(print(schema));
}

}  // namespace

constexpr Verb kProfileSchemaVerb = {
    .name = "profile schema",
    .summary = "Print the JSON Schema of profile files",
    .usage = kUsage,
    .flags = kFlags,
    .examples = kExamples,
    .run = print_schema,
};

}  // namespace sbx::cli
