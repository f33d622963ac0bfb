// Verb profile schema: the JSON Schema of profile files.
#include <array>

#include "cli/output.h"
#include "cli/verbs.h"
#include "core/profile/profile.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx profile schema"};
constexpr std::array<Example, 1> kExamples = {{
    {"sbx profile schema > sbx-profile.schema.json", "for an editor's YAML plug-in"},
}};

int print_schema(const Invocation& /*given*/) {
  std::string schema = profile::schema_json();
  if (!schema.ends_with('\n')) schema += '\n';
  return printed(print(schema));
}

}  // namespace

constexpr Verb kProfileSchemaVerb = {
    .name = "profile schema",
    .summary = "Print the JSON Schema of profile files",
    .usage = kUsage,
    .examples = kExamples,
    .run = print_schema,
};

}  // namespace sbx::cli
