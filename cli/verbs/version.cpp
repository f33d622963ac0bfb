// Verb version: which sbx this is.
#include <array>
#include <string>

#include "cli/output.h"
#include "cli/verbs.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx version [--json]"};
constexpr std::array<Flag, 1> kFlags = {{
    {.name = "json", .help = "Print one JSON object"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx version", "for people, and bug reports"},
    {"sbx version --json", "for programs"},
}};

int show_version(const Invocation& invocation) {
  if (!invocation.has("json")) return printed(print("sbx " SBX_VERSION "\n"));
  std::string out = R"({"schema":1,"version":)" + json_string(SBX_VERSION);
  out += R"(,"compiler":)" + json_string(__VERSION__) + "}\n";
  return printed(print(out));
}

}  // namespace

constexpr Verb kVersionVerb = {
    .name = "version",
    .summary = "Show the version of sbx",
    .usage = kUsage,
    .flags = kFlags,
    .examples = kExamples,
    .run = show_version,
};

}  // namespace sbx::cli
