// Layers of sessions: the store of layers (core/workspace/layer_store.h) as sessions use it: who
// owns what is in them, the base, what nobody uses any more.
#pragma once

#include <set>
#include <string>

#include "core/backend/backend.h"
#include "core/base/result.h"
#include "core/profile/profile.h"
#include "core/session/store.h"
#include "core/workspace/layer_store.h"

namespace sbx::session {

/// A hold on the store of layers, shared: from before a layer is made until a record names it.
Result<workspace::LayersLock> hold_layers(const Store& store);

/// From here on this process reaches every file of the session's layers, whatever their modes and
/// owners; see workspace::reach_own_files() and confine::reach_storage_ids(). Nothing may be
/// started or connected to afterwards.
void reach_files_of(const Record& record);

/// A new empty layer; its id.
Result<std::string> new_layer(const Store& store);
/// Removes one that no record came to name.
void drop_new_layer(const Store& store, const std::string& id);

/// kUnsupported, with what to do instead, for a session whose files are on the disk of a virtual
/// machine: the host does not read it.
Status check_layers(const Record& record);

/// Ids of the layers that any session or image names. An unreadable record is an error: nothing may
/// be removed then.
Result<std::set<std::string>> layers_in_use(const Store& store);

/// The backend that made the session: another would not find its files. kUnsupported for one that
/// is not known.
Result<const backend::Backend*> backend_of(const Record& record);

/// Puts the base for this host as it is now in place of the one that `record.lowers` has, or behind
/// the layers of the image when there is none yet. Nothing to do for a session with a disk.
Status refresh_base(const Store& store, const profile::Profile& profile, Record& record);

}  // namespace sbx::session
