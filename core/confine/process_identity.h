// Process identity: which process a record on disk speaks of, so that a number that was given to
// another process since is never taken for it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::confine {

/// A process, told from every other one that this host ever ran. A pid means nothing outside of its
/// pid namespace, a start time nothing outside of its boot.
struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t start = 0;          ///< clock ticks since boot (proc_pid_stat(5) field 22)
  std::uint64_t pid_namespace = 0;  ///< inode of it
  std::string boot;                 ///< /proc/sys/kernel/random/boot_id

  bool operator==(const ProcessIdentity&) const = default;
};

/// Of the process `pid` as this process sees it. kNotFound when there is none or it is a zombie.
Result<ProcessIdentity> identity_of(pid_t pid);

enum class Life : std::uint8_t {
  kAlive,
  kGone,     ///< ended, or of an earlier boot
  kUnknown,  ///< of another pid namespace: nobody here can tell
};
Life life_of(const ProcessIdentity& process);

/// A pidfd of exactly this process; an invalid descriptor when it is gone. kUnsupported when it
/// lives in another pid namespace.
Result<UniqueFd> open_process(const ProcessIdentity& process);

/// The pid behind a pidfd, in our pid namespace; kNotFound when the process is gone.
Result<pid_t> pid_of(int pidfd);

}  // namespace sbx::confine
