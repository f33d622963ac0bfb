// Verbs session ls and session show: the sessions that there are, and one of them in full.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/runs.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/session/report.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {
    "sbx session ls [--label KEY[=VALUE]] [--json]"};
constexpr std::string_view kDetails =
    "Lists all sessions with their state: running, paused, stopped, crashed (its supervisor or the "
    "machine ended without a stop; its files are there), starting or ending.";
constexpr std::array kFlags = {
    Flag{'\0',
         "label",
         "KEY[=VALUE]",
         "Only sessions with this label; repeatable",
         {},
         Repeat::kAll},
    Flag{'\0', "json", "", "Print one JSON object a line"},
    Flag{'q', "quiet", "", "Print names only"},
};
constexpr std::array kExamples = {
    Example{"sbx session ls", "what there is"},
    Example{"sbx session ls -q --label task=42 | xargs sbx session rm -f",
            "all of one task, removed"},
};

bool has_label(const session::Record& record, const std::string& wanted) {
  const std::size_t equals = wanted.find('=');
  const std::string_view key = std::string_view(wanted).substr(0, equals);
  return std::ranges::any_of(record.labels, [&](const auto& label) {
    return label.first == key &&
           (equals == std::string::npos || label.second == wanted.substr(equals + 1));
  });
}

using Row = std::array<std::string, 5>;

std::string as_table(const std::vector<Row>& rows) {
  Row::size_type columns = rows.front().size();
  std::vector<std::size_t> width(columns);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < columns; ++i) {
      width[i] = std::max(width[i], row[i].size());
    }
  }
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < columns; ++i) {
      out += row[i];
      out.append(width[i] + 2 - row[i].size(), ' ');
    }
    out += row.back() + '\n';
  }
  return out;
}

std::string labels_of(const session::Record& record) {
  std::string out;
  for (const auto& [key, value] : record.labels) {
    out += text::cat(out.empty() ? "" : " ", key, "=", text::escape(value));
  }
  return out;
}

int list(const Invocation& given) {
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  session::remove_expired(store.value());
  Result<std::vector<session::Listing>> all = store.value().list();
  if (!all.ok()) return failed(all.error());
  std::string lines;
  std::vector<Row> rows{{"NAME", "STATE", "PROFILE", "STARTED", "LABELS"}};
  const std::vector<std::string> wanted = given.all("label");
  for (const session::Listing& each : all.value()) {
    const bool is_wanted = std::ranges::all_of(
        wanted, [&](const std::string& label) { return has_label(each.record, label); });
    if (!is_wanted) continue;
    if (given.has("json")) {
      lines += session::listing_json(each) + "\n";
    } else if (given.has("quiet")) {
      lines += each.record.name + "\n";
    } else {
      rows.push_back({each.record.name,
                      each.problem.empty() ? std::string(session::name(each.state)) : "unreadable",
                      each.record.profile.empty() ? "-" : text::escape(each.record.profile),
                      short_time(each.run.started_ns),
                      each.problem.empty() ? labels_of(each.record) : text::escape(each.problem)});
    }
  }
  const bool is_table = !given.has("json") && !given.has("quiet");
  return printed(print(is_table ? as_table(rows) : lines));
}

constexpr std::array<std::string_view, 1> kShowUsage = {"sbx session show NAME [--json]"};
constexpr std::string_view kShowDetails =
    "Shows one session: state, profile, times, labels, checkpoints, where its files are.";
constexpr std::array kShowFlags = {kJsonFlag};
constexpr std::array kShowExamples = {
    Example{"sbx session show web --json | jq -r .state", "for a script"},
};

std::string as_text(const session::Store& store, const session::Listing& it) {
  const session::Record& record = it.record;
  std::string out = text::cat("name         ", record.name, "\n");
  const auto line = [&out](std::string_view key, std::string_view value) {
    constexpr std::size_t kWidth = 13;
    out += key;
    out.append(kWidth - key.size(), ' ');
    out += text::cat(text::escape(value), "\n");
  };
  line("state", session::name(it.state));
  if (!it.problem.empty()) line("problem", it.problem);
  line("profile", record.profile);
  line("isolation", text::cat(record.isolation, " (", record.isolation_reason, ")"));
  line("created", short_time(record.created_ns));
  line("started", short_time(it.run.started_ns));
  if (it.is_alive()) {
    line("last used", short_time(it.life->used_ns));
    line("supervisor", text::cat("process ", it.life->supervisor.pid));
  } else {
    line("ended", text::cat(short_time(it.run.ended_ns), " ", it.run.reason));
  }
  if (!record.labels.empty()) line("labels", labels_of(record));
  if (!record.forked_from.empty()) line("forked from", record.forked_from);
  for (const session::Checkpoint& checkpoint : record.checkpoints) {
    line("checkpoint",
         text::cat(checkpoint.tag,
                   " ",
                   short_time(checkpoint.created_ns),
                   checkpoint.is_automatic ? " (automatic)" : ""));
  }
  line("directory", store.dir(record.name));
  return out;
}

int show(const Invocation& given) {
  Result<session::Store> store = open_sessions();
  if (!store.ok()) return failed(store.error());
  Result<session::Listing> now = store.value().look(given.words()[0]);
  if (!now.ok()) return failed(now.error());
  return printed(print(given.has("json") ? session::listing_json(now.value()) + "\n"
                                         : as_text(store.value(), now.value())));
}

}  // namespace

constexpr Verb kSessionLsVerb = {
    .name = "session ls",
    .summary = "List the sessions",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .examples = kExamples,
    .run = list,
};

constexpr Verb kSessionShowVerb = {
    .name = "session show",
    .summary = "Show one session in full",
    .usage = kShowUsage,
    .details = kShowDetails,
    .flags = kShowFlags,
    .words = kOneSession,
    .examples = kShowExamples,
    .run = show,
};

}  // namespace sbx::cli
