// Verb runs ls: the runs that were recorded.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "cli/output.h"
#include "cli/runs.h"
#include "cli/verbs.h"
#include "core/base/text.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx runs ls [--lock NAME] [--json]"};
constexpr std::string_view kDetails =
    "Lists what sbx run --record (or --keep) kept, the newest first. A run whose sbx was killed "
    "shows as crashed, a start that found its lock held as skipped.";
constexpr std::array<Flag, 2> kFlags = {{
    {.name = "lock", .arg = "NAME", .help = "Only runs of this lock"},
    {.name = "json", .help = "Print one JSON object a line"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx runs ls", "what ran, when, and how it ended"},
    {"sbx runs ls --json | jq -r 'select(.exit_code != 0) | .id'", "those that failed"},
}};

using Row = std::array<std::string, 6>;

std::string seconds(double wall_s) {
  const auto tenths = static_cast<std::int64_t>(std::llround(wall_s * 10));
  return text::cat(tenths / 10, ".", tenths % 10, "s");
}

std::string command_of(const run::RunRecord& record) {
  constexpr std::size_t kLongest = 60;
  std::string line = text::escape(text::join(record.command, " "));
  if (line.size() <= kLongest) return line;
  line.resize(text::utf8_valid_prefix(std::string_view(line).substr(0, kLongest)));
  return line + "...";
}

Row row_of(const run::HistoryEntry& entry) {
  const run::RunRecord& record = entry.record;
  if (!entry.problem.empty()) {
    return {record.id, "unreadable", "-", "-", "-", text::escape(entry.problem)};
  }
  return {record.id,
          run::status_word(record),
          short_time(record.started_ns),
          record.state == run::RunState::kFinished ? seconds(record.wall_s) : "-",
          record.lock.empty() ? "-" : text::escape(record.lock),
          command_of(record)};
}

std::string as_table(const std::vector<Row>& rows) {
  std::array<std::size_t, 6> width{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      width[i] = std::max(width[i], row[i].size());
    }
  }
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      out += row[i];
      out.append(width[i] + 2 - row[i].size(), ' ');
    }
    out += row.back() + '\n';
  }
  return out;
}

int list_runs(const Invocation& given) {
  Result<Runs> runs = read_runs();
  if (!runs.ok()) return failed(runs.error());
  const std::string* lock = given.last("lock");
  std::string lines;
  std::vector<Row> rows{{"ID", "STATUS", "STARTED", "TIME", "LOCK", "COMMAND"}};
  for (const run::HistoryEntry& entry : runs.value().all) {
    if (lock != nullptr && entry.record.lock != *lock) continue;
    if (!given.has("json")) {
      rows.push_back(row_of(entry));
    } else if (entry.problem.empty()) {
      lines += run::record_json(entry.record, run::Detail::kLine) + '\n';
    } else {
      lines += text::cat(R"({"schema":1,"id":)",
                         json_string(entry.record.id),
                         R"(,"state":"unreadable","problem":)",
                         json_string(entry.problem),
                         "}\n");
    }
  }
  return printed(print(given.has("json") ? lines : as_table(rows)));
}

}  // namespace

constexpr Verb kRunsLsVerb = {
    .name = "runs ls",
    .summary = "List the recorded runs",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .examples = kExamples,
    .run = list_runs,
};

}  // namespace sbx::cli
