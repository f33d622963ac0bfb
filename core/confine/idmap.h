// Idmap: user namespace id maps, and ranges of host ids that belong to no one but one sandbox.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::confine {

/// One line of uid_map or gid_map.
struct IdMap {
  std::uint32_t inside = 0;
  std::uint32_t outside = 0;
  std::uint32_t count = 1;
};

/// 65,536 host ids that no user, no /etc/subuid or /etc/subgid line and no other living sandbox
/// has. Held by a lock that the kernel drops with the descriptor: nothing is left by a crash.
class IdRange {
 public:
  static constexpr std::uint32_t kCount = 65536;
  static constexpr std::uint32_t kFirst = 0x70000000;  // "HIC SVNT LEONES" in systemd's UIDS-GIDS
  static constexpr std::uint32_t kEnd = 0x7ffe0000;    // one past the last
  /// The range that no sandbox ever gets: what layers of sandboxes hold is owned by its ids, and
  /// mapped to those of the sandbox that uses it.
  static constexpr std::uint32_t kStorage = kEnd - kCount;

  /// Claims one below `dir` (made 0700 if missing; one per host for all of root's sandboxes, so
  /// that no two ever meet). kLimit when all are taken.
  static Result<IdRange> claim(const std::string& dir);

  std::uint32_t base() const { return base_; }
  /// The lock. A process that keeps a copy of it (the sandbox's PID 1) keeps the range.
  int fd() const { return lock_.get(); }

 private:
  IdRange(std::uint32_t base, UniqueFd lock) : base_(base), lock_(std::move(lock)) {}

  std::uint32_t base_ = 0;
  UniqueFd lock_;
};

/// Whether this process may map every id in [kFirst, kEnd): true for root on the host, false for
/// root in a container whose user namespace has fewer ids.
bool may_map_id_ranges();

/// Writes the maps of the user namespace of process `pid` (a child of ours in a new one). With
/// `deny_setgroups` /proc/PID/setgroups gets "deny" first, as an unprivileged writer must.
Status write_idmaps(pid_t pid,
                    std::span<const IdMap> uids,
                    std::span<const IdMap> gids,
                    bool deny_setgroups);

/// A user namespace with these maps and no process in it, for MOUNT_ATTR_IDMAP. Needs root.
Result<UniqueFd> idmap_userns(std::span<const IdMap> uids, std::span<const IdMap> gids);

}  // namespace sbx::confine
