// Verb profile ls: the profiles that can be named.
#include <algorithm>
#include <array>
#include <string>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"
#include "core/base/text.h"
#include "core/profile/profile.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx profile ls [--names | --json]"};
constexpr std::array<Flag, 2> kFlags = {{
    {.name = "names", .help = "Only the names, one a line (completions use it)"},
    {.name = "json", .help = "Print one JSON object"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx profile ls", "what there is and where it comes from"},
    {"sbx profile ls --names", "for scripts"},
}};

std::string_view source_of(const profile::Listing& row) {
  if (row.is_trusted_project) return "trusted project";
  return row.layer == profile::Layer::kBuiltin ? "shipped" : name(row.layer);
}

std::string as_table(const std::vector<profile::Listing>& rows) {
  std::size_t width = 4;
  for (const profile::Listing& row : rows) {
    width = std::max(width, row.name.size());
  }
  std::string out = "NAME";
  out.append(width - 2, ' ');
  out += "FROM             WHAT\n";
  for (const profile::Listing& row : rows) {
    std::string line = text::escape(row.name);
    line.append(line.size() < width + 2 ? width + 2 - line.size() : 1, ' ');
    std::string_view source = source_of(row);
    line += source;
    line.append(17 - std::min<std::size_t>(source.size(), 16), ' ');
    line += text::escape(row.problem.empty() ? row.description : row.problem);
    if (row.is_shadowed) line += " (not in use: another one of this name is found first)";
    if (!row.file.empty()) line += text::cat(" [", text::escape(row.file), "]");
    out += line + '\n';
  }
  return out;
}

std::string as_names(const std::vector<profile::Listing>& rows) {
  std::string out;
  for (const profile::Listing& row : rows) {
    if (row.is_shadowed || !row.problem.empty()) continue;
    out += row.name + '\n';
  }
  return out;
}

std::string as_json(const std::vector<profile::Listing>& rows) {
  std::string out = R"({"schema":1,"profiles":[)";
  for (const profile::Listing& row : rows) {
    if (out.back() == '}') out += ',';
    out += R"({"name":)" + json_string(row.name);
    out += R"(,"description":)" + json_string(row.description);
    out += R"(,"from":)" + json_string(source_of(row));
    out += R"(,"file":)" + (row.file.empty() ? "null" : json_string(row.file));
    out += R"(,"problem":)" + (row.problem.empty() ? "null" : json_string(row.problem));
    out += text::cat(R"(,"shadowed":)", row.is_shadowed ? "true" : "false", "}");
  }
  return out + "]}\n";
}

int list_profiles(const Invocation& given) {
  Result<profile::LoadRequest> request = profile_request(State::kIfPossible);
  if (!request.ok()) return failed(request.error());
  std::vector<profile::Listing> rows = profile::list(request.value());
  if (given.has("json")) return printed(print(as_json(rows)));
  return printed(print(given.has("names") ? as_names(rows) : as_table(rows)));
}

}  // namespace

constexpr Verb kProfileLsVerb = {
    .name = "profile ls",
    .summary = "List the profiles",
    .usage = kUsage,
    .flags = kFlags,
    .examples = kExamples,
    .run = list_profiles,
};

}  // namespace sbx::cli
