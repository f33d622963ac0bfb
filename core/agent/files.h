// Files: the worker inside that packs or unpacks files for a copy.
//
// Theory of operation. PID 1 forks; the child becomes what every program inside is (ids, no
// capabilities at all, no_new_privs, Landlock), and gets a system call filter that knows files and
// nothing else. It does not join the payload's cgroup: it works while the payload is frozen, so its
// memory is bounded by a resource limit instead. It runs our own code only and executes nothing;
// what it reads and writes goes through two or three descriptors. It ends with its work, when the
// other end of its stream is closed, or with PID 1.
#pragma once

#include <sys/types.h>

#include <span>

#include "core/agent/rules.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/ipc/message.h"

namespace sbx::agent {

/// Most workers of one sandbox at a time.
inline constexpr size_t kMaxFileWorkers = 16;

/// Forks the worker and returns its pid. `fds`: stream, report and, where the request says so, the
/// stream of an inventory. It exits with 0 when its report says success, else with 1; 125 when it
/// could not become what it must be.
Result<pid_t> start_files(const ipc::Files& request,
                          std::span<const UniqueFd> fds,
                          const PayloadRules& rules);

}  // namespace sbx::agent
