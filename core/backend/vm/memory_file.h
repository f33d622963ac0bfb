// Memory file: a guest's memory as a file that has no name and goes with its last holder.
#pragma once

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

namespace sbx::vm {

/// A memfd of `size` bytes, all zero and not there yet. It can neither grow nor shrink.
Result<UniqueFd> make_memory_file(Bytes size);

/// Copies what is in the file `from` to the same places of `to`, and leaves holes where there are
/// some. `to` has to be empty (all zeros), and is not made shorter. kProtocol when `from` is longer
/// than `most`. Blocks: 1 ms for 2 to 5 MB.
Status copy_sparse(int from, int to, Bytes most);

}  // namespace sbx::vm
