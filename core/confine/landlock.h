// Landlock: shuts off every file that is not beneath the jail's own root.
//
// A magic link such as /proc/PID/exe or /proc/PID/fd/N leads to its file whatever the mounts say:
// this is how a host file that a process outside the mount tree holds open could be executed or
// opened. A rule "all rights beneath /" refuses exactly those files. Call it last, after the root
// was changed: it forbids mounts, so it must not be used where nesting is allowed.
// Landlock's scopes (ABI 6: signals, abstract sockets) are left out on purpose: each exec would
// have a domain of its own and could not signal the programs of another exec in the same session.
#pragma once

#include <span>

namespace sbx::confine {

/// The kernel's Landlock ABI (1, 2 …); 0 when it is not there or turned off at boot.
int landlock_abi() noexcept;

/// Restricts the calling thread and its later children to files beneath "/". Sets no_new_privs.
/// 0 when in force; EOPNOTSUPP when the kernel has no Landlock or only ABI 1 (which would forbid
/// renames between directories): nothing is changed then. Otherwise an errno.
int landlock_only_beneath_root_in_child() noexcept;

/// The same to what lies beneath these directories (descriptors): all rights in `whole`, reading
/// alone in `readable`. What is open already stays usable. For processes that read hostile bytes.
int landlock_only_beneath_in_child(std::span<const int> whole,
                                   std::span<const int> readable) noexcept;

}  // namespace sbx::confine
