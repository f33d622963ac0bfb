// Verb profile explain: every value in force and where it came from.
#include <array>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "cli/verbs.h"
#include "core/profile/profile.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx profile explain [--set KEY=VALUE]... [--json] [PROFILE]"};
constexpr std::array<Flag, 3> kFlags = {{
    {.name = "set",
     .arg = "KEY=VALUE",
     .help = "As for run: what would be in force with it; repeatable",
     .repeat = Repeat::kAll},
    {.name = "allow-outside", .help = "As for run"},
    {.name = "json", .help = "Print one JSON object"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx profile explain python", "limits, mounts and variables of a profile"},
    {"SBX_MEMORY=1G sbx profile explain --set limits.pids=64 python",
     "what variables and flags change"},
}};

int explain_profile(const Invocation& given) {
  Result<profile::LoadRequest> request = profile_request(State::kIfPossible);
  if (!request.ok()) return failed(request.error());
  Result<std::vector<profile::Override>> overrides = overrides_of(given);
  if (!overrides.ok()) return failed(overrides.error());
  request.value().overrides = std::move(overrides).value();
  request.value().allow_outside = given.has("allow-outside");
  if (!given.words().empty()) request.value().name_or_path = given.words()[0];
  Result<profile::Profile> profile = profile::load(request.value());
  if (!profile.ok()) return failed(profile.error());
  return printed(print(given.has("json") ? profile::explain_json(profile.value()) + "\n"
                                         : profile::explain(profile.value())));
}

}  // namespace

constexpr Verb kProfileExplainVerb = {
    .name = "profile explain",
    .summary = "Show every value of a profile and where it comes from",
    .usage = kUsage,
    .details =
        "Without PROFILE: $SBX_PROFILE, else base. Values of variables that look like "
        "credentials are hidden.",
    .flags = kFlags,
    .words = {.max = 1, .complete = Complete::kProfile, .name = "PROFILE"},
    .examples = kExamples,
    .run = explain_profile,
};

}  // namespace sbx::cli
