// Batch list: the jobs of a list, one after the other, each checked and known by its id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/run/batch.h"
#include "core/run/batch_lines.h"
#include "core/run/batch_results.h"

namespace sbx::run {

/// A job whose turn has come.
struct ListedJob {
  NumberedLine line;
  std::string id;  ///< its own, else the line's number
  std::string digest;
  std::optional<Bytes> memory;  ///< its memory limit
};

/// The options of one job of this batch. `input` is what its stdin shall hold.
struct ReadyJob {
  std::string id;
  Options options;
  std::optional<std::string> input;
};
/// Reads one line of the list. kUsage without the line's number.
Result<ReadyJob> ready_job(const BatchRequest& request, const NumberedLine& line);

class BatchList {
 public:
  /// `request` and `earlier` outlive it.
  BatchList(const BatchRequest& request, const EarlierResults& earlier);

  /// For a regular file: reads all of it, then goes back to the beginning; the number of jobs.
  /// kUsage for the first mistake. For anything else nothing happens and there is no number.
  Result<std::optional<std::uint64_t>> check();

  /// Whether reading may have to wait: then read_more() is for a moment when it has not.
  bool is_stream() const { return is_stream_; }
  /// One read(2) of the list.
  Status read_more();
  /// The next job that is not among the earlier results; nullopt when more is to be read, or the
  /// list is done.
  Result<std::optional<ListedJob>> next();
  bool is_done() const { return cutter_.is_done(); }

 private:
  struct Looked {
    ReadyJob job;
    std::string digest;
  };
  Result<Looked> look_at(const NumberedLine& line);
  Error at_line(std::uint64_t number, Error error) const;
  Status check_earlier(const NumberedLine& line, const Looked& looked) const;

  const BatchRequest& request_;
  const EarlierResults& earlier_;
  LineCutter cutter_;
  JobSet seen_;
  bool is_stream_ = true;
  bool is_checked_ = false;
};

}  // namespace sbx::run
