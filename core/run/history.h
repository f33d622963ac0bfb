// History: the records of runs below the state directory, one JSON file each.
//
// Nobody locks it: a record is written by the run it is about, as a whole, and reading takes what
// is there. Deleting needs no space.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/run/record.h"

namespace sbx::run {

/// A file of the history; `problem` says why it could not be read.
struct HistoryEntry {
  RunRecord record;     ///< only `id` and `sequence` are valid when there is a problem
  std::string problem;  ///< empty: none
};

class History {
 public:
  /// Opens "<state_dir>/runs", making it if needed.
  static Result<History> open(const std::string& state_dir);

  /// One more than the highest sequence number there is.
  Result<std::uint64_t> next_sequence() const;
  /// Writes the record as a whole, to disk before it returns.
  Status write(const RunRecord& record) const;
  /// All records, the newest first. Removes files that a killed writer left half written.
  Result<std::vector<HistoryEntry>> list() const;
  /// Removes a record; one that is not there is success.
  Status remove(const RunRecord& record) const;

 private:
  explicit History(UniqueFd dir) : dir_(std::move(dir)) {}
  UniqueFd dir_;
};

/// A fresh id of a run: 10 letters and digits.
std::string new_run_id();

/// The one entry whose id begins with `prefix`. kNotFound, or kUsage when several do.
Result<const HistoryEntry*> find_run(const std::vector<HistoryEntry>& all, std::string_view prefix);

}  // namespace sbx::run
