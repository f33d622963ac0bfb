// Verb profile show: a profile's text as it was written.
#include <array>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "core/profile/profile.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx profile show PROFILE"};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx profile show python", "the YAML of a profile"},
    {"sbx profile show python > ~/.config/sbx/profiles/mine.yaml",
     "a profile of your own to start from"},
}};

int show_profile(const Invocation& given) {
  Result<profile::LoadRequest> request = profile_request(State::kIfPossible);
  if (!request.ok()) return failed(request.error());
  request.value().name_or_path = given.words()[0];
  Result<std::string> text = profile::source_text(request.value());
  return text.ok() ? printed(print(text.value())) : failed(text.error());
}

}  // namespace

constexpr Verb kProfileShowVerb = {
    .name = "profile show",
    .summary = "Print a profile as it was written",
    .usage = kUsage,
    .details = "PROFILE is a name, or a path when it has a slash or ends in .yaml.",
    .words = {.min = 1, .max = 1, .complete = Complete::kProfile, .name = "PROFILE"},
    .examples = kExamples,
    .run = show_profile,
};

}  // namespace sbx::cli
