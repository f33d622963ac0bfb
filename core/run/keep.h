// Keep: which runs of a series --keep N lets go, decided without touching anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/run/record.h"

namespace sbx::run {

/// What goes; each names a record by its id.
struct KeepPlan {
  std::vector<std::string> records;  ///< and with it the place, when the id is in `places`, too
  std::vector<std::string> places;   ///< what -o made for that run
};

/// Decides over `all` (the newest first, other series left alone), for --keep `keep` (at least 1):
/// - runs that go on are not counted and stay;
/// - of the places that runs made, the `keep` newest stay, and the newest one of a run that
///   succeeded stays whatever came after it;
/// - of the records, the `keep` newest stay, those of skipped starts counted by themselves; the
///   record of a place that stays does so, too.
KeepPlan plan_keep(const std::vector<RunRecord>& all,
                   const std::string& series,
                   std::uint64_t keep);

}  // namespace sbx::run
