// Verb runs show: all that is known about one recorded run.
#include <array>
#include <string>

#include "cli/output.h"
#include "cli/runs.h"
#include "cli/verbs.h"
#include "core/base/text.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx runs show ID [--json]"};
constexpr std::string_view kDetails = "The beginning of an ID is enough when it is the only one.";
constexpr std::array<Flag, 1> kFlags = {{
    {.name = "json", .help = "Print one JSON object, with the result of the run in it"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx runs show k3x7", "how it ended, and where its files are"},
    {"sbx runs show --json k3x7 | jq .result.usage", "what it used"},
}};

std::string as_text(const run::RunRecord& record) {
  std::string out;
  const auto line = [&out](std::string_view key, const std::string& value) {
    if (value.empty()) return;
    constexpr std::size_t kWidth = 10;
    out += key;
    out.append(key.size() < kWidth ? kWidth - key.size() : 1, ' ');
    out += text::escape(value) + '\n';
  };
  line("id", record.id);
  line("status", run::status_word(record));
  line("problem", record.message);
  line("command", text::join(record.command, " "));
  line("directory", record.cwd);
  line("lock", record.lock);
  line("started", short_time(record.started_ns));
  line("ended", record.ended_ns == 0 ? std::string() : short_time(record.ended_ns));
  if (record.out.has_value()) line("files", record.out->path);
  return out;
}

int show_run(const Invocation& given) {
  Result<Runs> runs = read_runs();
  if (!runs.ok()) return failed(runs.error());
  Result<const run::HistoryEntry*> found = run::find_run(runs.value().all, given.words()[0]);
  if (!found.ok()) return failed(found.error());
  const run::HistoryEntry& entry = *found.value();
  if (!entry.problem.empty()) {
    return failed(Error(Errc::kProtocol, text::cat("run ", entry.record.id, ": ", entry.problem)));
  }
  if (!given.has("json")) return printed(print(as_text(entry.record)));
  return printed(print(run::record_json(entry.record, run::Detail::kWhole) + '\n'));
}

}  // namespace

constexpr Verb kRunsShowVerb = {
    .name = "runs show",
    .summary = "Show one recorded run",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 1, .name = "ID"},
    .examples = kExamples,
    .run = show_run,
};

}  // namespace sbx::cli
