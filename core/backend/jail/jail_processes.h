// Jail processes: what runs in a jail, read from the host's /proc; nothing inside has a part in it
// but for the texts, which are hostile.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/result.h"

namespace sbx::jail {

/// How host ids become those inside.
struct IdView {
  uint32_t outside = 0;
  uint32_t inside = 0;
  uint32_t count = 1;
};

/// The processes `pids` (as this process sees them) of the jail whose PID 1 is `init`, by their
/// number inside. Those that have ended are left out. Blocks for three small reads each. Asks no
/// process that sleeps uninterruptibly for its arguments unless `is_frozen`: in a frozen cgroup v1
/// all do.
Result<std::vector<backend::ProcessInfo>> read_processes(pid_t init,
                                                         std::span<const pid_t> pids,
                                                         std::span<const IdView> ids,
                                                         bool is_frozen);

/// CPU time and memory of `pids` together; 0 when there are none.
void sum_processes(std::span<const pid_t> pids, backend::LiveUsage& out);
/// The bytes that they have read and written, those of processes that may be asked (io of
/// proc_pid_io(5) needs the right to trace).
void sum_io(std::span<const pid_t> pids, backend::LiveUsage& out);

}  // namespace sbx::jail
