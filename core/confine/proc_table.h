// Proc table: processes as /proc tells of them, for whoever has to see, stop or sum them up.
// A process may end between any two reads: then there is no answer, never a wrong one.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/host_text.h"

namespace sbx::confine {

/// What is wanted of /proc/PID/status.
struct ProcStatus {
  std::vector<pid_t> pids;      ///< NSpid: its number in the namespace of /proc first, then inwards
  std::vector<pid_t> sessions;  ///< NSsid, likewise; told also when the session's leader has ended
  std::uint32_t uid = 0;        ///< effective, as the reader's user namespace maps it
  std::uint64_t pending = 0;    ///< bit n-1: signal n waits, for the thread or the process
};
/// Pure. nullopt when a line is missing.
std::optional<ProcStatus> parse_proc_status(std::string_view text);

/// The proc file system of this process's own pid namespace; kProtocol when something else is
/// mounted there.
Result<UniqueFd> open_proc();
/// Every process number in it, ascending.
Result<std::vector<pid_t>> list_processes(int proc);
std::optional<ProcStat> read_proc_stat(int proc, pid_t pid);
std::optional<ProcStatus> read_proc_status(int proc, pid_t pid);
/// Its arguments as they are in memory, each ended by NUL, at most `most` bytes; empty when there
/// are none to be read.
std::string read_proc_command(int proc, pid_t pid, std::size_t most);

/// All that came from `root` and lives, without itself; at most `most`. Those whose parent ends
/// while we look are found by looking again (children of a process that ended belong to PID 1 of
/// their namespace, or to a subreaper below `root`).
std::vector<pid_t> find_descendants(int proc, pid_t root, std::size_t most);

}  // namespace sbx::confine
