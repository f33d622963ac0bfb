// Verb session apply: a session's changes of host directories, brought to the host.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"
#include "core/base/text.h"
#include "core/session/apply_trees.h"
#include "core/session/layers.h"
#include "core/session/store.h"
#include "core/session/trees.h"
#include "core/workspace/beneath.h"
#include "core/workspace/path_selection.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx session apply NAME [--dry-run] [--force] [PATH...]"};
constexpr std::string_view kDetails =
    "Brings what the session changed in host directories that it has mounted overlay to those "
    "directories: files are written whole, links on the way are not followed, and only what was "
    "deleted inside is deleted. A file that somebody changed on the host after the session did is "
    "a conflict, and then nothing is applied. Needs no sandbox.\n\n"
    "PATH is a path inside with everything below it, or a pattern with *, ? and [...].";
constexpr std::array<Flag, 2> kFlags = {{
    {.name = "dry-run", .help = "Print what would be done, and do nothing"},
    {.name = "force", .help = "Also write over what was changed on the host meanwhile"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx session apply web --dry-run", "what would be done to the host"},
    {"sbx session apply web /src/main.c '/src/*.h'", "take these files alone"},
}};

std::string line_of(const session::TreePlan& tree, const workspace::ApplyStep& step) {
  constexpr std::array<std::string_view, 6> kNames = {
      "delete", "mkdir", "write", "link", "mode", "skip"};
  std::string line = text::cat(kNames.at(static_cast<std::size_t>(step.action)),
                               "\t",
                               text::escape(text::cat(tree.tree->host, "/", step.change.path)));
  if (!step.reason.empty()) line += text::cat("\t(", step.reason, ")");
  return line + '\n';
}

Status print_plans(const std::vector<session::TreePlan>& plans) {
  std::string text;
  for (const session::TreePlan& tree : plans) {
    for (const workspace::ApplyStep& step : tree.plan.steps) {
      text += line_of(tree, step);
    }
  }
  return print(text);
}

/// An error that names the first conflicts.
Status refuse_conflicts(const std::string& name, const std::vector<session::TreePlan>& plans) {
  constexpr std::size_t kShown = 5;
  std::size_t count = 0;
  std::string shown;
  for (const session::TreePlan& tree : plans) {
    for (const workspace::ApplyStep& step : tree.plan.steps) {
      if (!step.is_conflict) continue;
      if (count++ < kShown) shown += text::cat(shown.empty() ? "" : ", ", step.change.path);
    }
  }
  if (count == 0) return {};
  if (count > kShown) shown += ", ...";
  return Error(Errc::kDenied,
               text::cat(count,
                         count == 1 ? " file was" : " files were",
                         " changed on the host after the session changed them: ",
                         shown))
      .with_hint(text::cat("look with sbx session diff ",
                           name,
                           " --patch, then name the paths to apply, or write over them with "
                           "--force"));
}

Status do_plans(const session::Lease& lease,
                const Directories& dirs,
                std::vector<session::TreePlan>& plans) {
  std::uint64_t failures = 0;
  std::string first;
  for (session::TreePlan& tree : plans) {
    SBX_ASSIGN(const workspace::ApplyReport report,
               session::apply_tree(lease.dir(), dirs.state, tree));
    failures += report.failed_count;
    if (first.empty() && !report.failed.empty()) first = report.failed.front();
  }
  if (failures == 0) return {};
  return Error(Errc::kSystem, text::cat(failures, " changes could not be applied: ", first))
      .with_hint("the others are applied; run the same command again for the rest");
}

Status run_apply(const Invocation& given) {
  const std::string& name = given.words()[0];
  std::vector<std::string> patterns;
  for (std::size_t i = 1; i < given.words().size(); ++i) {
    SBX_ASSIGN(std::string path, workspace::inside_path(given.words()[i], "work"));
    patterns.push_back(std::move(path));
  }
  const workspace::PathSelection chosen(std::move(patterns));
  SBX_ASSIGN(const Directories dirs, directories(State::kNeeded));
  SBX_ASSIGN(const session::Store store, session::Store::open(dirs.state));
  SBX_ASSIGN(const session::Lease lease, store.lock(name));
  SBX_ASSIGN(const session::Record record, lease.read());
  session::reach_files_of(record);
  SBX_ASSIGN(session::SessionTrees trees, session::open_trees(store, record, ""));
  SBX_ASSIGN(std::vector<session::TreePlan> plans, session::plan_trees(lease.dir(), trees, chosen));
  for (const std::string& problem : trees.problems) {
    print_warning(text::escape(problem));
  }
  if (plans.empty()) {
    return Error(Errc::kNotFound,
                 text::cat("session ", name, " has changed no host directory mounted overlay"))
        .with_hint("files of the session itself are copied with sbx session cp");
  }
  if (const std::string unused = chosen.unused(); !unused.empty()) {
    return Error(Errc::kNotFound, text::cat("nothing to apply at /", unused))
        .with_hint(text::cat("sbx session diff ", name, " lists the changes"));
  }
  if (given.has("dry-run")) return print_plans(plans);
  if (!given.has("force")) SBX_TRY(refuse_conflicts(name, plans));
  SBX_TRY(print_plans(plans));
  return do_plans(lease, dirs, plans);
}

int apply_verb(const Invocation& given) {
  const Status done = run_apply(given);
  return done.ok() ? kExitOk : failed(done.error());
}

}  // namespace

constexpr Verb kSessionApplyVerb = {
    .name = "session apply",
    .summary = "Bring changes to a host directory mounted overlay",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 1000, .name = "NAME"},
    .examples = kExamples,
    .run = apply_verb,
};

}  // namespace sbx::cli
