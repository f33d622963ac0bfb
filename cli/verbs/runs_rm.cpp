// Verb runs rm: forgets recorded runs.
#include <algorithm>
#include <array>
#include <string>

#include "cli/output.h"
#include "cli/runs.h"
#include "cli/verbs.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 2> kUsage = {"sbx runs rm ID...",
                                                    "sbx runs rm --all | --older TIME"};
constexpr std::string_view kDetails =
    "Removes records, never the files that -o brought out. A run that goes on is not forgotten.";
constexpr std::array<Flag, 2> kFlags = {{
    {.name = "all", .help = "All that have ended"},
    {.name = "older", .arg = "TIME", .help = "All that began longer ago than this: 12h, 30d"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx runs rm k3x7 p2ab", "these two"},
    {"sbx runs rm --older 90d", "whatever is too old to matter"},
}};

bool goes_on(const run::HistoryEntry& entry) {
  return entry.problem.empty() && entry.record.state == run::RunState::kRunning &&
         !run::is_crashed(entry.record);
}

int remove_matching(const Runs& runs, std::int64_t before_ns) {
  for (const run::HistoryEntry& entry : runs.all) {
    if (goes_on(entry) || entry.record.started_ns >= before_ns) continue;
    if (Status removed = runs.history.remove(entry.record); !removed.ok()) {
      return failed(removed.error());
    }
  }
  return 0;
}

int remove_named(const Runs& runs, const std::vector<std::string>& ids) {
  std::vector<const run::HistoryEntry*> found;
  for (const std::string& id : ids) {  // all or nothing
    Result<const run::HistoryEntry*> entry = run::find_run(runs.all, id);
    if (!entry.ok()) return failed(entry.error());
    if (goes_on(*entry.value())) {
      return failed(Error(Errc::kDenied, text::cat("run ", entry.value()->record.id, " goes on"))
                        .with_hint(text::cat("kill ", entry.value()->record.process.pid)));
    }
    found.push_back(entry.value());
  }
  for (const run::HistoryEntry* entry : found) {
    if (Status removed = runs.history.remove(entry->record); !removed.ok()) {
      return failed(removed.error());
    }
  }
  return 0;
}

int forget(const Invocation& given) {
  const bool by_rule = given.has("all") || given.has("older");
  if (by_rule == !given.words().empty() || (given.has("all") && given.has("older"))) {
    return failed(
        Error(Errc::kUsage, "say which records to remove, in one way")
            .with_hint("sbx runs rm ID..., sbx runs rm --all, or sbx runs rm --older 30d"));
  }
  std::int64_t before_ns = INT64_MAX;
  if (const std::string* older = given.last("older")) {
    Result<Millis> age = parse_duration(*older);
    if (!age.ok()) return failed(std::move(age).error().prefixed("--older"));
    constexpr std::int64_t kNsPerMs = 1'000'000;
    const std::int64_t now = realtime_ns();
    if (age.value().v > now / kNsPerMs) return 0;  // nothing began before 1970
    before_ns = now - age.value().v * kNsPerMs;
  }
  Result<Runs> runs = read_runs();
  if (!runs.ok()) return failed(runs.error());
  return by_rule ? remove_matching(runs.value(), before_ns)
                 : remove_named(runs.value(), given.words());
}

}  // namespace

constexpr Verb kRunsRmVerb = {
    .name = "runs rm",
    .summary = "Forget recorded runs",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.max = 1000, .name = "ID"},
    .examples = kExamples,
    .run = forget,
};

}  // namespace sbx::cli
