// Verb session events: what happened to a session.
#include <sys/stat.h>

#include <array>
#include <limits>
#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "core/base/clock.h"
#include "core/base/exit_code.h"
#include "core/base/sys.h"
#include "core/session/log_follow.h"
#include "core/session/log_time.h"
#include "core/session/store.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx session events NAME [-f] [--since TIME]"};
constexpr std::string_view kDetails =
    "Prints what happened to the session, the oldest first, one JSON object a line: starts, "
    "stops, pauses, execs with their ends, checkpoints, forks, services. What programs print is "
    "in sbx session logs.";
constexpr std::array<Flag, 3> kFlags = {{
    {'f', "follow", {}, "Go on until the session is removed"},
    {.name = "since",
     .arg = "TIME",
     .help = "Only from then on: 10m (ago), 2026-01-31, 2026-01-31T09:30:00Z"},
    {.name = "json", .help = "One JSON object a line: what happens anyway"},
}};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx session events dev --since 1h", "the last hour"},
    {"sbx session events dev -f | jq -r .event", "as it happens"},
}};

/// Whether the directory behind `dir` is no longer the session of that name.
bool is_removed(int dir, const std::string& path) {
  struct stat named {};
  const Result<struct stat> ours = sys::fstat(dir);
  return !ours.ok() || ::lstat(path.c_str(), &named) != 0 || named.st_ino != ours.value().st_ino ||
         named.st_dev != ours.value().st_dev;
}

Status show(const Invocation& given) {
  const std::string& name = given.words()[0];
  std::int64_t since = std::numeric_limits<std::int64_t>::min();
  if (const std::string* text = given.last("since")) {
    SBX_ASSIGN(since, session::parse_since(*text, realtime_ns()));
  }
  SBX_ASSIGN(const session::Store store, open_sessions());
  SBX_ASSIGN(const UniqueFd dir, store.open_dir(name));
  SBX_ASSIGN(session::EventLogReader reader, session::EventLogReader::open(dir.get()));
  const std::string path = store.dir(name);
  session::IsOver is_over;
  if (given.has("follow")) is_over = [&] { return is_removed(dir.get(), path); };
  std::string lines;
  return session::read_events(
      reader,
      dir.get(),
      is_over,
      [&](const session::EventLine& event) {
        if (event.time_ns >= since) lines += event.text + '\n';
        return Status();
      },
      [&] { return print(std::exchange(lines, {})); });
}

int show_events(const Invocation& given) {
  const Status shown = show(given);
  return shown.ok() ? kExitOk : failed(shown.error());
}

}  // namespace

constexpr Verb kSessionEventsVerb = {
    .name = "session events",
    .summary = "Print what happened to the session",
    .usage = kUsage,
    .details = kDetails,
    .flags = kFlags,
    .words = {.min = 1, .max = 1, .name = "NAME"},
    .examples = kExamples,
    .run = show_events,
};

}  // namespace sbx::cli
