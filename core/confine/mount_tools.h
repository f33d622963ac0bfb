// Mount tools: what the executor's parts share. Private to core/confine/mount_exec.cpp and
// overlay_exec.cpp.
#pragma once

#include <linux/openat2.h>

#include <cstdint>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::confine {

/// umount2(2) flag that <linux/mount.h> lacks (it cannot be mixed with sys/mount.h).
inline constexpr int kDetach = 2;  // MNT_DETACH
/// A directory that every host has: the new root is attached over it, in our own mount namespace.
inline constexpr const char* kStaging = "/proc";
/// No link of any kind is followed, and nothing leads out of the new root.
inline constexpr uint64_t kStrictly = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

struct FsOption {
  std::string key;
  std::string value;  ///< empty: a flag
};

/// A detached mount of a new instance of `type`. `attributes`: MOUNT_ATTR_*.
Result<UniqueFd> new_mount(const std::string& type,
                           std::span<const FsOption> options,
                           unsigned attributes);
/// Sets MOUNT_ATTR_* of the mount `mount_fd` and makes it private; `flags`: AT_RECURSIVE. `what`
/// begins the error.
Status set_attributes(int mount_fd, uint64_t set, unsigned flags, const std::string& what);
/// An inside path as one relative to the new root.
std::string relative(const std::string& path);
std::string parent_of(const std::string& path);

}  // namespace sbx::confine
