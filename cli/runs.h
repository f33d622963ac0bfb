// Runs: what the verbs of `sbx runs` share.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/run/history.h"

namespace sbx::cli {

struct Runs {
  run::History history;
  std::vector<run::HistoryEntry> all;  ///< the newest first
};

/// Opens the state directory and reads every record.
Result<Runs> read_runs();

/// "2026-01-31 09:30:00Z"; "-" for 0.
std::string short_time(std::int64_t realtime_ns);

}  // namespace sbx::cli
