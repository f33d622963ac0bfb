// Storage ids: who owns on disk what an id inside owns, where sandboxes have many ids, and running
// code as root of those.
//
// Images and sandboxes made of them have the ids 0 to 65535. What they store belongs to host ids
// that nobody else has: for root those of IdRange::kStorage (each sandbox sees them through an
// idmapped mount), for a user its own id as 0 and the ranges that /etc/subuid and /etc/subgid give
// it as the rest (every sandbox of the user has this map).
#pragma once

#include <functional>
#include <vector>

#include "core/base/process.h"
#include "core/base/result.h"
#include "core/confine/idmap.h"

namespace sbx::confine {

struct StorageIds {
  /// kSubids: maps are written by newuidmap(1) and newgidmap(1).
  enum class Kind : std::uint8_t { kRange, kSubids };
  Kind kind = Kind::kRange;
  std::vector<IdMap> uids;  ///< all of 0 to 65535, in order
  std::vector<IdMap> gids;
};

/// Those of this user. kUnsupported with the fix where there are none: a user without a range of
/// 65,535 ids in both files, or without newuidmap. Reads files at every call.
Result<StorageIds> storage_ids();

/// The same decided from given texts, for user `name` with `uid` and `gid`; pure.
Result<StorageIds> plan_subids(
    std::string_view subuid, std::string_view subgid, std::string_view name, uid_t uid, gid_t gid);

/// Writes the maps of `pid`, a child of ours in a new user namespace. Runs and waits for the
/// helpers of kSubids.
Status map_storage_ids(pid_t pid, const StorageIds& ids);

/// What a storage root sees of the network: nothing, or all that we do.
enum class StorageNet : bool { kNone, kHost };

/// A fork of this process that is root (0:0, all capabilities, no other groups) of a new user
/// namespace with these ids, and has mount, network (see `net`) and IPC namespaces of its own. It
/// runs `body`, ends with its value as the status and dies with us. Descriptors are inherited. Only
/// for processes with one thread.
Result<ChildProcess> fork_as_storage_root(const StorageIds& ids,
                                          const std::function<int()>& body,
                                          StorageNet net = StorageNet::kNone);

/// The same, waited for: kSystem when it did not return 0 (with `what` in the message). What went
/// wrong is best sent through a descriptor that `body` has.
Status run_as_storage_root(const StorageIds& ids,
                           std::string_view what,
                           const std::function<int()>& body);

/// For a user (kSubids): puts this process into a user namespace in which its own id and those of
/// its ranges are what they are outside, with all capabilities over what they own; it stays who it
/// is. kUnsupported where there are no such ranges, or when root calls it. A failure may leave the
/// process in a namespace without any id. Only for processes with one thread.
Status reach_storage_ids();

}  // namespace sbx::confine
