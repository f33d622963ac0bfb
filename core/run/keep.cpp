// Keep: see keep.h.
#include "core/run/keep.h"

#include <algorithm>
#include <set>

namespace sbx::run {

namespace {

bool has_place(const RunRecord& record) {
  return record.out.has_value() && record.out->kind != OutPlace::Kind::kShared;
}

bool has_succeeded(const RunRecord& record) {
  return record.state == RunState::kFinished && record.cause == "exited" && record.exit_code == 0;
}

bool goes_on(const RunRecord& record) {
  return record.state == RunState::kRunning && !is_crashed(record);
}

}  // namespace

KeepPlan plan_keep(const std::vector<RunRecord>& all,
                   const std::string& series,
                   std::uint64_t keep) {
  std::vector<const RunRecord*> ours;
  for (const RunRecord& record : all) {
    if (record.series == series && !goes_on(record)) ours.push_back(&record);
  }
  // Two runs may have made one place, the later in the place of the earlier: it is the later's.
  KeepPlan plan;
  std::set<std::string> paths;
  std::set<const RunRecord*> kept_places;
  std::uint64_t places = 0;
  bool has_success = false;
  for (const RunRecord* record : ours) {
    if (!has_place(*record) || !paths.insert(record->out->path).second) continue;
    const bool is_new = places++ < keep;
    const bool is_last_success = has_succeeded(*record) && !has_success;
    has_success = has_success || has_succeeded(*record);
    if (is_new || is_last_success) {
      kept_places.insert(record);
    } else {
      plan.places.push_back(record->id);
    }
  }
  std::uint64_t runs = 0;
  std::uint64_t skipped = 0;
  for (const RunRecord* record : ours) {
    std::uint64_t& count = record->state == RunState::kSkipped ? skipped : runs;
    const bool is_new = count++ < keep;
    if (is_new || kept_places.contains(record)) continue;
    plan.records.push_back(record->id);
  }
  return plan;
}

}  // namespace sbx::run
