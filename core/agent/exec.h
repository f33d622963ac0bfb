// Exec: starts one program inside, bound to the payload rules.
//
// Theory of operation. The agent prepares everything that needs memory (argument arrays, the paths
// that argv[0] may mean), forks, and the child makes only system calls, in this order:
//   1. session of its own, controlling terminal or the three descriptors
//   2. the payload's cgroup (before it can use anything); then further descriptors, which take
//      numbers that the agent has others at
//   3. working directory, resource limits
//   4. ids, capabilities, no_new_privs; from here on it is as weak as the program will be
//   5. Landlock, then seccomp (which forbids what the steps before needed)
//   6. exec; a failed step is reported through a close-on-exec pipe, whose end means success.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "core/agent/rules.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/ipc/message.h"

namespace sbx::agent {

/// A forked child on its way to exec.
struct Starting {
  pid_t pid = -1;
  UniqueFd errors;                      ///< read end: empty at exec, else one ExecReport
  UniqueFd master;                      ///< of the terminal, when one was asked for
  std::vector<std::string> candidates;  ///< paths tried in order, for the message
};

/// What surrounds every exec of one sandbox.
struct ExecContext {
  PayloadRules rules;
  std::span<const UniqueFd> join_fds;  ///< cgroup.procs files to write "0" to
  int group = -1;                      ///< directory of the v2 cgroup to start in
  FileId own_binary;                   ///< never executed for the payload
  bool is_alone = false;  ///< no process of the payload exists yet, and nothing can stop it
};

/// Forks the child. `fds` are its three descriptors (none with a terminal) and `more_fds` others.
Result<Starting> start_exec(const ipc::Exec& request,
                            std::span<const UniqueFd> fds,
                            const ExecContext& context);

/// What the error pipe said: empty text when the program runs.
struct ExecFailure {
  bool has_failed = false;
  bool is_program = false;  ///< the program itself cannot be run, not a step on the way to it
  std::string what;
  int error = 0;
};

/// Reads the report once `errors` is readable. Does not block then.
ExecFailure read_report(const Starting& starting, const std::string& cwd);

}  // namespace sbx::agent
