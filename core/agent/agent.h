// Agent: PID 1 of a sandbox: starts programs, reaps, forwards signals, ends with its supervisor.
//
// It serves one channel and knows nothing of how the sandbox was made or what the host is.
#pragma once

#include <vector>

#include "core/agent/exec.h"
#include "core/base/unique_fd.h"
#include "core/ipc/channel.h"

namespace sbx::agent {

struct AgentConfig {
  PayloadRules rules;
  std::vector<UniqueFd> join_fds;
  UniqueFd group;           ///< v2 cgroup that programs are cloned into; invalid: none
  bool is_lasting = false;  ///< a session: PID 1 never waits for a program, not even for its exec
  std::vector<UniqueFd> held;  ///< kept open as long as PID 1 lives (the claim on an id range)
  FileId own_binary;
};

/// Serves until the other side closes the channel or breaks the protocol, then exits; with PID 1
/// the kernel ends every process of the namespace. All signals must be blocked.
[[noreturn]] void run_agent(ipc::Channel channel, AgentConfig config);

}  // namespace sbx::agent
