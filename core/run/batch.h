// Batch: many one-shot jobs out of a list, some at a time, one result line each.
//
// It prints nothing; results go to a file or to our stdout, words for people through the request's
// functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/run/batch_job.h"
#include "core/run/batch_plan.h"
#include "core/run/options.h"

namespace sbx::run {

/// One line of a job list may be this long: it has to fit into memory, as a script has to.
inline constexpr Bytes kLongestJobLine{std::uint64_t{64} << 20U};

/// For a progress bar; cheap to make.
struct BatchProgress {
  BatchCounts counts;
  unsigned running = 0;
  std::optional<std::uint64_t> total;  ///< of jobs; absent while the list is still being read
};

struct BatchRequest {
  Options defaults;            ///< for every job; `program` is not looked at
  std::vector<KeyField> keys;  ///< fields that set a key of the profile
  int list_fd = -1;            ///< the job list, not owned. A regular file is checked as a whole
                     ///< before anything starts; of anything else, jobs start as they come
  std::string list_name;               ///< for errors: "jobs.jsonl"
  std::optional<std::string> results;  ///< file; absent: stdout
  bool resume = false;                 ///< see ResultFile::Mode::kResume
  std::optional<std::string> out;      ///< a job without "out" gets a directory of its id in here
  unsigned slots = 1;                  ///< jobs at a time
  std::optional<Bytes> memory;         ///< of all jobs together; absent: what is left here
  bool fail_fast = false;              ///< start no more jobs once one failed
  std::function<void(const BatchProgress&)> progress;  ///< after each change; may be empty
};

struct BatchReport {
  BatchEnd end;
  std::string first_failure;  ///< "job a (line 3): exited with status 1"; empty: none
};

/// Runs the list to its end and blocks. The first SIGINT, SIGTERM, SIGHUP or SIGQUIT starts no more
/// jobs and ends those that run, as it does for execute(); their results are written. kUsage for
/// the list or the file of results, others when no sandbox can work here or results cannot be
/// written: jobs that were running have been ended then, too.
Result<BatchReport> run_batch(const BatchRequest& request);

}  // namespace sbx::run
