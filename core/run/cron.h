// Cron: a run that nobody watches - one at a time, in time, again when that may help, on record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/units.h"
#include "core/run/lock.h"
#include "core/run/options.h"
#include "core/run/report.h"

namespace sbx::run {

struct CronOptions {
  std::string lock;                   ///< --lock; empty: none
  Overlap overlap = Overlap::kSkip;   ///< --on-overlap
  std::optional<Millis> deadline;     ///< --deadline, from the start of sbx
  std::uint64_t retry = 0;            ///< --retry: further attempts
  bool record = false;                ///< --record; --keep means it, too
  std::optional<std::uint64_t> keep;  ///< --keep, at least 1
};

/// Waits before the attempt `number` (2 is the first that waits): 1 s, doubled each time, at most
/// 1 min.
Millis backoff(std::uint64_t number);

/// What --keep counts together; empty when nothing says which runs belong together.
std::string series_of(const Options& options, const CronOptions& cron);

/// Like execute(): waits for the lock, tries, records, lets old runs go. `options.state_dir` must
/// be there when a lock or a record is asked for. Its `id` and `deadline` are set here. Blocks.
Report execute_cron(Options options, const CronOptions& cron);

/// One line without newline about a run that did not succeed: what, how, how long, how to see more.
/// Not escaped.
std::string failure_line(const Options& options, const CronOptions& cron, const Report& report);

}  // namespace sbx::run
