// Garbage: what killed commands left in the directories of sessions and layers, for `sbx gc`.
#pragma once

#include <vector>

#include "core/run/gc.h"
#include "core/session/store.h"

namespace sbx::session {

/// Sessions half made or half removed, stopped ones that nobody used for their session.ttl, and
/// layers that no session and no image names; removed, or only told. While one cannot be read no
/// layer counts as unused. Needs no free space. Blocks as long as the removal takes.
std::vector<run::GcEntry> collect_garbage(const Store& store, run::Gc how);

}  // namespace sbx::session
