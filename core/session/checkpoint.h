// Checkpoint: states of a session's files that can be gone back to, and forked from.
//
// Theory of operation
//  1. With nobody alive in the session its writable layer is frozen as it is and a new, empty one
//     is put on top ("stacked"): a rename of the record, whatever the workspace holds.
//  2. With somebody alive the kernel holds the writable layer. The session's programs are frozen,
//     the layer is copied (shared blocks where the file system can), and they go on ("copied").
//  3. A layer is named by the records of all sessions that need it, so forks share what is below
//     them, and a layer goes when the last record has stopped naming it.
//  4. A chain that grows too long is squashed into one layer by hard links.
//  5. A session with a disk (record.h) has no layers: the disk is copied while nobody is alive in
//     it; to go back is to copy the disk of the checkpoint, the one that was there is set aside.
// Memory and processes are not part of a checkpoint of a jail.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/session/lifecycle.h"
#include "core/session/store.h"

namespace sbx::session {

/// Most layers of a session, without those of its image, before they are squashed: all names of
/// layers have to fit into one page of mount options (4,096 bytes), and each layer costs a look at
/// every path.
inline constexpr std::size_t kMostLayers = 12;

/// Keeps the present state under `tag`; without one it is "c1", "c2" ... kExists when the tag is
/// taken. Blocks; copying takes as long as what was written since the last checkpoint is large.
Result<Checkpoint> make_checkpoint(const Store& store,
                                   const std::string& session,
                                   const std::optional<std::string>& tag);

/// The present state of a session as frozen layers that `record` names afterwards or that are new,
/// with neither tag nor place among the checkpoints. The caller holds the layers (hold_layers) and
/// writes `record`. Nothing may be started or connected to afterwards (reach_files_of).
Result<Checkpoint> capture(const Store& store, const Lease& lease, Record& record);

/// Forgets a checkpoint. kNotFound when there is none of that tag.
Status remove_checkpoint(const Store& store, const std::string& session, const std::string& tag);

struct Restored {
  Checkpoint kept;         ///< the automatic checkpoint of what was there
  bool was_alive = false;  ///< it was stopped for this, and started again
};
/// Puts the files back to how they were at `tag`. A session that runs is stopped and started again.
Result<Restored> restore(const Store& store,
                         const std::string& session,
                         const std::string& tag,
                         const profile::EnvLookup& env,
                         const Warn& warn);

/// New stopped sessions `names` with the files of `session` as they are, or were at `from`. All of
/// them or none.
Result<std::vector<Record>> fork(const Store& store,
                                 const std::string& session,
                                 const std::vector<std::string>& names,
                                 const std::optional<std::string>& from);

}  // namespace sbx::session
