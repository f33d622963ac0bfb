// Verb session diff: what is different in a session's files.
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "cli/directories.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"
#include "core/base/text.h"
#include "core/session/diff_text.h"
#include "core/session/layers.h"
#include "core/session/store.h"
#include "core/session/trees.h"
#include "core/workspace/beneath.h"
#include "core/workspace/path_selection.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx session diff NAME [--since CHECKPOINT] [FLAG...] [PATH...]"};
constexpr std::string_view kDetails =
    "Lists the files that were added (A), changed (M) and deleted (D) since the session was made, "
    "or since a checkpoint. Of host directories that are mounted overlay it is the difference to "
    "what is there now. A renamed file is deleted and added; times alone are no change. Needs no "
    "sandbox: it works while the session runs, is paused, is stopped and after a crash.\n\n"
    "PATH is a path inside (relative ones begin in /work) with everything below it, or a pattern "
    "with *, ? and [...] where * does not match a slash.";
constexpr std::array<Flag, 4> kFlags = {{
    {.name = "since", .arg = "CHECKPOINT", .help = "Compare with this checkpoint"},
    {.name = "stat", .help = "Count the lines added and deleted in each file"},
    {.name = "patch", .help = "Print the changes of text files as git apply takes them"},
    {.name = "json", .help = "Print one JSON object a line"},
}};
constexpr std::array<Example, 3> kExamples = {{
    {"sbx session diff web", "what the session has changed"},
    {"sbx session diff web --since before-upgrade --stat", "how much, since a checkpoint"},
    {"sbx session diff web --patch /work/src | git apply -p3", "take text changes into a checkout"},
}};

session::DiffStyle style_of(const Invocation& given) {
  if (given.has("stat")) return session::DiffStyle::kStat;
  if (given.has("patch")) return session::DiffStyle::kPatch;
  return given.has("json") ? session::DiffStyle::kJson : session::DiffStyle::kNames;
}

Status check(const Invocation& given) {
  const int count =
      (given.has("stat") ? 1 : 0) + (given.has("patch") ? 1 : 0) + (given.has("json") ? 1 : 0);
  if (count <= 1) return {};
  return Error(Errc::kUsage, "--stat, --patch and --json exclude each other")
      .with_hint("give one of them");
}

/// Lines collected to large writes.
class Printer {
 public:
  Status add(std::string_view text) {
    constexpr std::size_t kPiece = std::size_t{64} << 10U;
    text_ += text;
    return text_.size() < kPiece ? Status() : flush();
  }
  Status flush() { return print(std::exchange(text_, {})); }

 private:
  std::string text_;
};

Status show(const Invocation& given) {
  SBX_TRY(check(given));
  std::vector<std::string> patterns;
  for (std::size_t i = 1; i < given.words().size(); ++i) {
    SBX_ASSIGN(std::string path, workspace::inside_path(given.words()[i], "work"));
    patterns.push_back(std::move(path));
  }
  const workspace::PathSelection chosen(std::move(patterns));
  SBX_ASSIGN(const Directories dirs, directories(State::kNeeded));
  SBX_ASSIGN(const session::Store store, session::Store::open(dirs.state));
  SBX_ASSIGN(const session::Listing listing, store.look(given.words()[0]));
  session::reach_files_of(listing.record);
  const std::string* since = given.last("since");
  SBX_ASSIGN(session::SessionTrees trees,
             session::open_trees(store, listing.record, since == nullptr ? "" : *since));
  Printer printer;
  session::DiffText text(style_of(given), ::isatty(STDOUT_FILENO) == 1);
  const session::AddText add = [&](std::string_view piece) { return printer.add(piece); };
  SBX_TRY(session::print_diff(trees, chosen, text, add));
  SBX_TRY(printer.flush());
  for (const std::string& problem : trees.problems) {
    print_warning(text::escape(problem));
  }
  return {};
}

int show_diff(const Invocation& given) {
  const Status shown = show(given);
  return shown.ok() ? kExitOk : failed(shown.error());
}

}  // namespace

constexpr Verb kSessionDiffVerb = {
    .name = "session diff",
    .summary = "List the files that were added, changed and deleted",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 1000, .name = "NAME"},
    .examples = kExamples,
    .run = show_diff,
};

}  // namespace sbx::cli
