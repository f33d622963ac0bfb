// Verb profile trust: lets a project's own profile be used by name.
#include <array>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/profile/profile.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 2> kUsage = {
    "sbx profile trust FILE",
    "sbx profile trust --forget NAME",
};
constexpr std::array<Flag, 1> kFlags = {{
    {.name = "forget", .help = "Take the trust in the profile NAME back"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx profile trust ./ci.yaml", "from now on: sbx run -p ci ..."},
    {"sbx profile trust --forget ci", "no longer"},
}};

int trust_profile(const Invocation& given) {
  Result<profile::LoadRequest> request = profile_request(State::kNeeded);
  if (!request.ok()) return failed(request.error());
  const std::string& word = given.words()[0];
  if (given.has("forget")) {
    Status forgotten = profile::untrust(request.value(), word);
    if (!forgotten.ok()) return failed(forgotten.error());
    return printed(print_notice(text::cat("sbx: ", text::escape(word), " is no longer trusted\n")));
  }
  Result<std::string> name = profile::trust(request.value(), word);
  if (!name.ok()) return failed(name.error());
  return printed(
      print_notice(text::cat("sbx: ",
                             text::escape(name.value()),
                             " is trusted as it is now; after a change trust it again\n")));
}

}  // namespace

constexpr Verb kProfileTrustVerb = {
    .name = "profile trust",
    .summary = "Let a project's own profile be used by name",
    .usage = kUsage,
    .details =
        "Profiles in a project are never found by searching. Read FILE first: whoever wrote it "
        "decides what the sandbox may reach inside the project. The trust is in the content; a "
        "changed file has to be trusted anew. Shipped, user and system names cannot be taken.",
    .flags = kFlags,
    .words = {.min = 1, .max = 1, .complete = Complete::kFile, .name = "FILE"},
    .examples = kExamples,
    .run = trust_profile,
};

}  // namespace sbx::cli
