// Batch worker: a process of ours, forked without exec, that runs jobs one after the other.
//
// What all jobs have in common is there when it is forked. It shares nothing with us afterwards but
// one socket; should it crash, one job is lost and no other. It dies with us, and its sandbox with
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/process.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/supervise/outcome.h"

namespace sbx::run {

/// What is to be done: a job's line as it stands in the list.
struct WorkOrder {
  std::uint64_t line = 0;
  std::string text;
};

/// What became of it.
struct WorkDone {
  supervise::Cause cause = supervise::Cause::kSandboxError;
  int exit_status = 0;
  std::string report;    ///< JSON, as of to_json()
  std::string warnings;  ///< sentences for the user, one line each
};

/// Does one order, in the worker. It must not throw.
using Work = std::function<WorkDone(const WorkOrder&)>;

/// Our end of a worker. The destructor kills and reaps it.
class BatchWorker {
 public:
  /// Forks. In the worker the signals that end a job are blocked (Job looks for them), stdin and
  /// stdout are /dev/null, and no other descriptor of ours is open.
  static Result<BatchWorker> start(const Work& work);

  /// Readable when receive() has something to read.
  int fd() const { return link_.get(); }
  /// Hands it an order; it must be idle. Blocks until the worker has read most of it.
  Status give(const WorkOrder& order);
  /// Reads what is there. The answer when it is whole; kProtocol when the worker is gone.
  Result<std::optional<WorkDone>> receive();
  /// A big answer is on its way.
  bool is_receiving_much() const;
  Status signal(int signo) { return process_.kill(signo); }
  /// Ends it when it is idle (it sees the end of its orders) and reaps it. The status of wait(2).
  /// Blocks.
  Result<int> end();

 private:
  BatchWorker(ChildProcess process, UniqueFd link)
      : process_(std::move(process)), link_(std::move(link)) {}

  ChildProcess process_;
  UniqueFd link_;
  std::string received_;
};

/// A worker that crashes leaves its sandbox behind: it ends by itself, and from now on we are its
/// parent (prctl(2), PR_SET_CHILD_SUBREAPER), as nobody else may be there to wait for it.
Status adopt_orphans();
/// Waits for the end of all children, at most two seconds. For the time after the last worker.
void reap_orphans();

}  // namespace sbx::run
