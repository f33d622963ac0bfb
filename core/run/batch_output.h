// Batch output: where result lines go: the file of --results, or our stdout.
//
// Our stdout is shared with whoever started us: its flags stay as they are. A reader that does not
// read makes is_written() false, and blocks nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/run/batch.h"
#include "core/run/batch_results.h"

namespace sbx::run {

class BatchOutput {
 public:
  /// The errors of ResultFile::open().
  static Result<BatchOutput> open(const BatchRequest& request);
  /// See ResultFile::recover().
  Result<EarlierResults> recover();

  /// `progressed` is called on the loop when something that had to wait was written, or could not
  /// be. The loop outlives this, or give_up() is called before.
  void attach(Loop& loop, std::function<void(Status)> progressed);

  /// Writes one line, now or as soon as somebody reads. After a failure everything is dropped.
  Status put(const std::string& line);
  bool is_written() const { return waiting_.empty(); }
  /// Drops what waits.
  void give_up();

  bool needs_sync() const { return file_.has_value(); }
  /// See ResultFile::sync().
  Status sync();

 private:
  BatchOutput() = default;
  Status write_some();

  std::optional<ResultFile> file_;
  bool may_wait_ = false;  // our stdout is a pipe, a socket or a terminal
  bool has_failed_ = false;
  std::string waiting_;
  Watch watch_;
  std::function<void(Status)> progressed_;
};

}  // namespace sbx::run
