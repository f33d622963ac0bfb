// Layers of sessions: the store of layers (core/workspace/layer_store.h) as sessions use it: who
// owns what is in them, the base, what nobody uses any more.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/profile/profile.h"
#include "core/session/store.h"
#include "core/workspace/layer_store.h"

namespace sbx::session {

/// A hold on the store of layers, shared: from before a layer is made until a record names it.
Result<workspace::LayersLock> hold_layers(const Store& store);

/// A new empty layer; its id.
Result<std::string> new_layer(const Store& store);
/// Removes one that no record came to name.
void drop_new_layer(const Store& store, const std::string& id);

/// Makes `record.lowers[0]` the base for this host as it is now.
Status refresh_base(const Store& store, const profile::Profile& profile, Record& record);

}  // namespace sbx::session
