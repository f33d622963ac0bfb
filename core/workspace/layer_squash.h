// Layer squash: several frozen layers merged into one, so that chains do not grow without bound.
#pragma once

#include <span>
#include <string>

#include "core/base/result.h"
#include "core/workspace/layer_copy.h"

namespace sbx::workspace {

/// Merges frozen layers that lie directly upon each other, lowest first as a record lists them,
/// into a new one that shows the same in their place, whatever lies below or above: whiteouts and
/// opaque directories are kept where they may hide something of below. The lowest layer of a stack
/// stays out: whiteouts with nothing below would be listed as names by the kernel. Nothing of the
/// old layers changes but link counts: files become hard links of theirs (copies by reference or
/// value only where a file system refuses one more link), so the cost grows with the number of
/// names, not with bytes. Flushed when it returns; killed it leaves a ".tmp-" for sweep(). The
/// caller holds the shared LayersLock. Blocks; for a worker when there are many files.
Result<CopyReport> squash(int layers,
                          std::span<const std::string> ids,
                          const OnProgress& progress = {});

}  // namespace sbx::workspace
