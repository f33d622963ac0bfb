// Verbs: the table of everything sbx can be asked to do.
#include "cli/verbs.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/base/text.h"

namespace sbx::cli {
namespace {

constexpr std::array kVerbs = {
    &kRunVerb,
    &kBatchVerb,
    &kSessionStartVerb,
    &kSessionExecVerb,
    &kSessionShellVerb,
    &kSessionLsVerb,
    &kSessionShowVerb,
    &kSessionPsVerb,
    &kSessionStatsVerb,
    &kSessionWaitVerb,
    &kSessionKillVerb,
    &kSessionCpVerb,
    &kSessionLogsVerb,
    &kSessionEventsVerb,
    &kSessionPauseVerb,
    &kSessionResumeVerb,
    &kSessionTouchVerb,
    &kSessionCheckpointVerb,
    &kSessionCheckpointsVerb,
    &kSessionRestoreVerb,
    &kSessionForkVerb,
    &kSessionCommitVerb,
    &kSessionStopVerb,
    &kSessionRmVerb,
    &kSessionDiffVerb,
    &kSessionApplyVerb,
    &kSessionExportVerb,
    &kImageImportVerb,
    &kImagePullVerb,
    &kImageCreateVerb,
    &kImageExportVerb,
    &kImageBuildVerb,
    &kImageLsVerb,
    &kImageShowVerb,
    &kImageRmVerb,
    &kImageGcVerb,
    &kKernelInstallVerb,
    &kKernelLsVerb,
    &kKernelRmVerb,
    &kRunsLsVerb,
    &kRunsShowVerb,
    &kRunsRmVerb,
    &kProfileLsVerb,
    &kProfileShowVerb,
    &kProfileCheckVerb,
    &kProfileExplainVerb,
    &kProfileSchemaVerb,
    &kProfileTrustVerb,
    &kDoctorVerb,
    &kGcVerb,
    &kHelpVerb,
    &kVersionVerb,
};

std::string_view group_of(const Verb& verb) {
  std::size_t blank = verb.name.find(' ');
  return blank == std::string_view::npos ? std::string_view() : verb.name.substr(0, blank);
}

}  // namespace

std::span<const Verb* const> verbs() {
  return kVerbs;
}

bool in_group(const Verb& verb, std::string_view group) {
  return group.empty() || group_of(verb) == group;
}

bool is_group(std::string_view word) {
  return std::ranges::any_of(
      kVerbs, [word](const Verb* verb) { return !word.empty() && group_of(*verb) == word; });
}

Found find_verb(std::span<const std::string> words) {
  if (words.empty()) return {};
  for (const Verb* verb : kVerbs) {
    std::string_view group = group_of(*verb);
    if (group.empty()) {
      if (words[0] == verb->name) return {verb, 1};
    } else if (words.size() > 1 && words[0] == group &&
               words[1] == verb->name.substr(group.size() + 1)) {
      return {verb, 2};
    }
  }
  return {};
}

Error unknown_verb(std::span<const std::string> words) {
  const std::string& word = words[0];
  std::vector<std::string_view> known;
  if (is_group(word) && words.size() > 1) {
    std::size_t skip = word.size() + 1;
    for (const Verb* verb : kVerbs) {
      if (group_of(*verb) == word) known.push_back(verb->name.substr(skip));
    }
    Error error(Errc::kUsage,
                text::cat("unknown verb \"", text::escape(words[1]), "\" of sbx ", word));
    if (auto near = text::closest(words[1], known)) {
      return std::move(error).with_hint(text::cat("did you mean sbx ", word, " ", *near, "?"));
    }
    return std::move(error).with_hint(text::cat("see sbx ", word, " --help"));
  }
  if (word.starts_with('-')) {
    return Error(Errc::kUsage, text::cat("unknown flag ", text::escape(word), " before the verb"))
        .with_hint("flags stand behind the verb: sbx run FLAG... FILE");
  }
  for (const Verb* verb : kVerbs) {
    known.push_back(group_of(*verb).empty() ? verb->name : group_of(*verb));
  }
  Error error(Errc::kUsage, text::cat("unknown verb \"", text::escape(word), "\""));
  if (auto near = text::closest(word, known)) {
    return std::move(error).with_hint(text::cat("did you mean sbx ", *near, "?"));
  }
  if (::access(word.c_str(), F_OK) == 0) {
    return std::move(error).with_hint(text::cat("to run the file: sbx run ", text::escape(word)));
  }
  return std::move(error).with_hint("see sbx --help");
}

}  // namespace sbx::cli
