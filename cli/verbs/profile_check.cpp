// Verb profile check: every mistake of a profile, each with its place.
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

constexpr std::array<std::string_view, 1> kUsage = {"sbx profile check [--json] PROFILE..."};
constexpr std::array<Flag, 1> kFlags = {{
    {.name = "json", .help = "Print one JSON object"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx profile check ./ci.yaml", "a file that is being written"},
    {"sbx profile check --json mine", "for editors"},
}};

std::string as_json(const profile::Diagnostic& mistake) {
  return text::cat(R"({"file":)",
                   json_string(mistake.file),
                   R"(,"line":)",
                   mistake.line,
                   R"(,"column":)",
                   mistake.column,
                   R"(,"message":)",
                   json_string(mistake.message),
                   "}");
}

int check_profiles(const Invocation& given) {
  Result<profile::LoadRequest> request = profile_request(State::kIfPossible);
  if (!request.ok()) return failed(request.error());
  bool json = given.has("json");
  std::size_t mistakes = 0;
  std::string out;
  for (const std::string& profile : given.words()) {
    request.value().name_or_path = profile;
    Result<std::vector<profile::Diagnostic>> found = profile::check(request.value());
    if (!found.ok()) return failed(found.error());
    for (const profile::Diagnostic& mistake : found.value()) {
      if (json) {
        if (!out.empty()) out += ',';
        out += as_json(mistake);
      } else {
        out += text::escape(mistake.to_string()) + '\n';
      }
    }
    if (!json && found.value().empty()) out += text::escape(profile) + ": ok\n";
    mistakes += found.value().size();
  }
  if (json) out = R"({"schema":1,"mistakes":[)" + out + "]}\n";
  if (int status = printed(print(out)); status != 0) return status;
  if (mistakes == 0) return kExitOk;
  if (!json) {
    print_error(Error(Errc::kUsage, text::cat(mistakes, mistakes == 1 ? " mistake" : " mistakes")));
  }
  return kExitUsage;
}

}  // namespace

constexpr Verb kProfileCheckVerb = {
    .name = "profile check",
    .summary = "Find every mistake in profiles",
    .usage = kUsage,
    .details =
        "Prints FILE:LINE:COLUMN: MESSAGE for each and exits 2, or 0 when there is none. "
        "PROFILE is a name, or a path when it has a slash or ends in .yaml.",
    .flags = kFlags,
    .words = {.min = 1, .max = 1000, .complete = Complete::kProfile, .name = "PROFILE"},
    .examples = kExamples,
    .run = check_profiles,
};

}  // namespace sbx::cli
