// Layer copy: a second layer with the same stored content, for a checkpoint of running programs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/result.h"
#include "core/workspace/copy_file.h"

namespace sbx::workspace {

struct CopyReport {
  std::string id;           ///< of the new layer
  std::uint64_t bytes = 0;  ///< of data; holes do not count, shared blocks do
  std::uint64_t files = 0;  ///< everything but directories; a file of several names counts once
  bool reflinked = false;   ///< no content was copied: all blocks are shared (or there were none)
};

struct CopyProgress {
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
};
/// Called after each file and every few MiB; an error ends the copy and is given back.
using OnProgress = std::function<Status(const CopyProgress&)>;

/// Called once when all content is read and before it is flushed: the writers may go on.
using OnCopied = std::function<void()>;

/// Copies layer `from` as it is stored: whiteouts, attributes of overlayfs, owners, modes, times,
/// hard links, holes. "ovl" is not copied. What vanishes during the copy is left out, so whoever
/// wants one moment freezes the writers first. Flushed to the disk when it returns. Killed at any
/// moment it leaves a ".tmp-" that sweep() removes. The caller holds the shared LayersLock. Blocks
/// for as long as the content is large: for a worker.
///
/// Copies have birth times of their own, so the new layer says in its file "since" when the oldest
/// content of `from` can have been made: see layer_since().
Result<CopyReport> copy_layer(int layers,
                              const std::string& from,
                              const OnProgress& progress = {},
                              const OnCopied& copied = {});

/// Nanoseconds since 1970 before which nothing in a copied (or squashed) layer was made by a job;
/// 0 for other layers: there each file's own birth time says it.
std::int64_t layer_since(int layers, const std::string& id);
/// Notes it in a layer that is being made; 0 notes nothing.
Status write_layer_since(int layer, std::int64_t ns);

}  // namespace sbx::workspace
