// Seccomp: the system call filters, made at build time, and their installation.
// Unknown calls give ENOSYS, denied ones EPERM; no call kills. The list is in gen/seccomp_rules.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <span>

namespace sbx::confine {

enum class SeccompProfile : std::uint8_t {
  kDefault,  ///< no mounts, no new namespaces
  kNesting,  ///< mounts and namespaces allowed, for profiles with `nesting: true`
  kFiles,    ///< files and nothing else, for our own file worker; openat2 is allowed
  kImage,    ///< kDefault, but set-user-id files can be made (packages hold some): only where
             ///< nothing that can be written to stays on the host
};

/// The instructions of a filter; static storage.
std::span<const sock_filter> seccomp_program(SeccompProfile profile) noexcept;

/// Sets no_new_privs and installs the filter for the calling thread. Only system calls: for use
/// between clone and exec. 0 or an errno.
int install_seccomp_in_child(SeccompProfile profile) noexcept;

}  // namespace sbx::confine
