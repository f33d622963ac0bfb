// Verbs: the table of everything sbx can be asked to do.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/verb.h"

namespace sbx::cli {

/// All verbs, in the order of the overview.
std::span<const Verb* const> verbs();

/// Whether `verb` is one of `group` ("profile ls" is in "profile"); every verb is in the empty
/// group.
bool in_group(const Verb& verb, std::string_view group);

/// The verb that the first words name, and how many words its name took; null: none of them.
struct Found {
  const Verb* verb = nullptr;
  std::size_t taken = 0;
};
Found find_verb(std::span<const std::string> words);

/// Whether `word` begins the name of a group of verbs.
bool is_group(std::string_view word);

/// What to say about words that name no verb: the one that was meant, or that a file wants `run`.
Error unknown_verb(std::span<const std::string> words);

/// The verbs, one row each; defined beside their functions.
extern const Verb kRunVerb;
extern const Verb kBatchVerb;
extern const Verb kSessionLogsVerb;
extern const Verb kSessionEventsVerb;
extern const Verb kSessionDiffVerb;
extern const Verb kSessionApplyVerb;
extern const Verb kSessionExportVerb;
extern const Verb kRunsLsVerb;
extern const Verb kRunsShowVerb;
extern const Verb kRunsRmVerb;
extern const Verb kSessionStartVerb;
extern const Verb kSessionExecVerb;
extern const Verb kSessionShellVerb;
extern const Verb kSessionLsVerb;
extern const Verb kSessionShowVerb;
extern const Verb kSessionPsVerb;
extern const Verb kSessionStatsVerb;
extern const Verb kSessionTouchVerb;
extern const Verb kSessionPauseVerb;
extern const Verb kSessionResumeVerb;
extern const Verb kSessionStopVerb;
extern const Verb kSessionRmVerb;
extern const Verb kSessionWaitVerb;
extern const Verb kSessionKillVerb;
extern const Verb kSessionCheckpointVerb;
extern const Verb kSessionCheckpointsVerb;
extern const Verb kSessionRestoreVerb;
extern const Verb kSessionForkVerb;
extern const Verb kSessionCommitVerb;
extern const Verb kSessionCpVerb;
extern const Verb kImageImportVerb;
extern const Verb kImagePullVerb;
extern const Verb kImageCreateVerb;
extern const Verb kImageExportVerb;
extern const Verb kImageBuildVerb;
extern const Verb kImageLsVerb;
extern const Verb kImageShowVerb;
extern const Verb kImageRmVerb;
extern const Verb kImageGcVerb;
extern const Verb kKernelInstallVerb;
extern const Verb kKernelLsVerb;
extern const Verb kKernelRmVerb;
extern const Verb kProfileLsVerb;
extern const Verb kProfileShowVerb;
extern const Verb kProfileCheckVerb;
extern const Verb kProfileExplainVerb;
extern const Verb kProfileSchemaVerb;
extern const Verb kProfileTrustVerb;
extern const Verb kDoctorVerb;
extern const Verb kGcVerb;
extern const Verb kVersionVerb;
extern const Verb kHelpVerb;

}  // namespace sbx::cli
