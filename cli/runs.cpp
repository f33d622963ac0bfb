// Runs: see runs.h.
#include "cli/runs.h"

#include <utility>

#include "cli/directories.h"
#include "core/base/clock.h"

namespace sbx::cli {

Result<Runs> read_runs() {
  SBX_ASSIGN(const Directories dirs, directories(State::kNeeded));
  SBX_ASSIGN(run::History history, run::History::open(dirs.state));
  SBX_ASSIGN(std::vector<run::HistoryEntry> all, history.list());
  return Runs{std::move(history), std::move(all)};
}

std::string short_time(std::int64_t realtime_ns) {
  if (realtime_ns == 0) return "-";
  std::string full = format_rfc3339(realtime_ns);  // 2026-01-31T09:30:00.125Z
  constexpr std::size_t kSeconds = 19;
  full.resize(kSeconds);
  full[10] = ' ';
  return full + "Z";
}

}  // namespace sbx::cli
