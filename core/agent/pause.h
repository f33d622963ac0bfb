// Pause: stops every process of the sandbox but PID 1 with SIGSTOP, where the host has no freezer.
//
// Theory of operation
//  1. The table of processes is read; what is stopped already is remembered (pid and start time)
//     and left alone, everybody else gets SIGSTOP. That is done until a pass finds nobody who runs.
//     After some passes SIGSTOP goes to all at once, which no fork can outrun.
//  2. A process that a debugger holds, or that sleeps in the kernel with the signal waiting for it
//     (the parent in vfork(2) of a child that is stopped), stands still as well: it runs no
//     instruction of its own before it is let go.
//  3. To go on, everybody but those remembered gets SIGCONT, children before their parents as far
//     as the numbers tell, so that no parent sees a stop that it did not cause.
// What differs from a freezer: programs can see that they were stopped (SIGCONT handlers, WUNTRACED
// of a parent that was slower to stop).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::agent {

class Pause {
 public:
  /// Stops all but `exempt` (and this process). Blocks, at most two seconds; on failure everybody
  /// runs as before. kTimeout when somebody does not stop.
  Status stop_all(std::span<const pid_t> exempt);
  void continue_all();
  bool is_on() const { return is_on_; }

  /// While stopped: keeps a signal that would undo the stop, or be undone by its end, for later.
  /// False when it can be sent now.
  bool defer(std::uint32_t exec_id, int signo);
  /// What defer() kept, in order.
  std::vector<std::pair<std::uint32_t, int>> take_deferred();

 private:
  struct Pass {
    bool is_still = true;
    bool is_sleeping = false;  ///< somebody is in an uninterruptible sleep
  };

  Status open();
  Result<Pass> stop_pass(std::span<const pid_t> exempt, bool at_once);

  UniqueFd proc_;
  bool is_on_ = false;
  std::map<pid_t, std::uint64_t> stopped_before_;  // with start time
  std::map<pid_t, std::uint64_t> signalled_;
  std::vector<std::pair<std::uint32_t, int>> deferred_;
};

}  // namespace sbx::agent
