// Process: starting a helper program of the host and owning it until its end.
// The jail is not started from here: it needs namespaces and its own order of steps.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx {

/// A child and its pidfd. The destructor kills (SIGKILL) and reaps it, unless it was waited for or
/// released.
class ChildProcess {
 public:
  /// Adopts a child of this process that nobody else waits for.
  ChildProcess(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// Readable once the child has ended (Loop::add_pidfd). Still owned here.
  int pidfd() const { return pidfd_.get(); }

  /// Waits for the end and reaps: the status for WIFEXITED and friends. A second call gives the
  /// same. Blocks.
  Result<int> wait();
  /// The same without blocking: nullopt while it runs.
  Result<std::optional<int>> try_wait();
  /// Sends a signal; success when it has ended already.
  Status kill(int signo);
  /// Lets go of it without killing; the caller reaps.
  pid_t release();

 private:
  void end();

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  std::optional<int> status_;
};

/// How spawn() starts a program.
struct SpawnOptions {
  std::vector<std::string> argv;                // argv[0] with a '/' is a path, else found in PATH
  std::optional<std::vector<std::string>> env;  // "K=V"; nullopt: the caller's environment
  std::string cwd;                              // empty: the caller's
  int in = -1;                                  // descriptors for 0, 1, 2; -1: /dev/null
  int out = -1;
  int err = -1;
  std::vector<int> pass_fds;  // kept open in the child under the same numbers (> 2)
};

/// Starts a program with default signal dispositions, an empty signal mask and only the descriptors
/// named above. Returns after the exec succeeded; when it fails (kNotFound, kDenied, ...) the child
/// is reaped already. PATH is the caller's; "/usr/bin:/bin" when unset.
Result<ChildProcess> spawn(const SpawnOptions& options);

/// What fork_pidfd() made; 0 and no descriptor in the child.
struct Forked {
  pid_t pid = -1;
  UniqueFd pidfd;
};
/// fork(2) that also gives a pidfd of the child, which signals its end with SIGCHLD. `flags` may
/// add CLONE_NEW* (clone(2)). The child goes on with a copy of everything; for processes with one
/// thread.
Result<Forked> fork_pidfd(std::uint64_t flags = 0);

/// Sets every signal to its default disposition and unblocks all. Only system calls: for use
/// between clone and exec. 0 or an errno.
int reset_signals_in_child() noexcept;

/// Has this process, a fork of `parent` in the same pid namespace, killed when that ends; ends it
/// at once when it has ended already (PR_SET_PDEATHSIG tells only of later ends). Only system
/// calls: for use after clone.
void die_with_parent_in_child(pid_t parent) noexcept;

}  // namespace sbx
