// Batch results: the lines that a batch writes, one for each job, and the file that holds them.
//
// A line is the result object of `run --json` with "job", "line" and "job_digest" before its own
// members. Lines are added by one write each and end with a newline, so that a line without one is
// known to be torn. What an earlier run left is read in pieces: a line may be big.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/run/batch_plan.h"

namespace sbx::run {

/// What a line says of its job.
struct ResultHead {
  std::string job;
  std::uint64_t line = 0;  ///< of the job list
  std::string digest;      ///< job_digest() of the job's line
  std::string cause;
  int exit_status = 0;
};

/// 16 hex digits that change with the text of a job's line.
std::string job_digest(std::string_view line);

/// Puts what is known of the job before the members of `report_json`; ends with a newline.
std::string result_line(const ResultHead& head, std::string_view report_json);

/// Reads the members before "stdout" of a line, or of the beginning of one. kProtocol when it is no
/// result of a batch.
Result<ResultHead> parse_result_head(std::string_view line);

/// What is remembered of one finished job.
struct Finished {
  std::uint64_t line = 0;
  std::array<char, 16> digest{};
};

/// By id of the job, as its digest: a million jobs take some tens of MiB.
class JobSet {
 public:
  /// False when it is in the set already; then `known` (may be null) gets what was put there.
  bool add(std::string_view id, const Finished& what, Finished* known = nullptr);
  const Finished* find(std::string_view id) const;
  std::size_t size() const { return jobs_.size(); }

 private:
  struct Key {
    std::array<std::uint64_t, 2> words{};
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const { return key.words[0]; }
  };
  static Key key_of(std::string_view id);

  std::unordered_map<Key, Finished, Hash> jobs_;
};

/// What an earlier run left in the file.
struct EarlierResults {
  JobSet jobs;         ///< that need not run again
  BatchCounts counts;  ///< of them
  bool was_torn = false;
  std::uint64_t dropped = 0;  ///< lines of interrupted jobs, which run again
};

/// The file of `--results`.
class ResultFile {
 public:
  enum class Mode : std::uint8_t {
    kNew,     ///< it must be new or empty
    kResume,  ///< goes on with what is there
  };

  /// Opens `path` for adding; makes it when it is missing (mode 0666 less umask). A regular file is
  /// locked against another batch. kUsage when it has content and `mode` is kNew, when it is not a
  /// batch's, or when it is in use.
  static Result<ResultFile> open(const std::string& path, Mode mode);

  /// Reads what is there, for kResume: a torn last line is cut off, lines of interrupted jobs are
  /// taken out (the file is replaced as a whole for that). kUsage names a line that is no result.
  Result<EarlierResults> recover();

  /// Adds one line; a part of it that was written before a failure is taken back.
  Status append(std::string_view line);

  /// Has the kernel bring everything to the disk; nothing when there is nothing new. Blocks.
  Status sync();

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  ResultFile(std::string path, UniqueFd fd, bool is_regular)
      : path_(std::move(path)), fd_(std::move(fd)), is_regular_(is_regular) {}
  Status lock() const;
  Status drop_lines(const std::vector<std::array<std::uint64_t, 2>>& ranges);

  std::string path_;
  UniqueFd fd_;
  bool is_regular_;
  bool is_dirty_ = false;
};

}  // namespace sbx::run
