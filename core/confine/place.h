// Place: makes sure of what a mount or the job needs in a tree that somebody hostile could write to
// before. See mount_op.h.
#pragma once

#include "core/base/result.h"
#include "core/confine/mount_op.h"

namespace sbx::confine {

/// Carries `step` out below `root`, which nobody else writes to meanwhile. Nothing outside `root`
/// is ever reached: no link is followed, and what is in the way is renamed, never deleted (but for
/// devices, sockets and FIFOs that cannot be renamed; they hold nothing). Needs the right to
/// override permissions of what is below `root`. May copy what it moves when `root` is an overlay
/// and the thing lies in a lower layer.
Status place(int root, const Place& step);

}  // namespace sbx::confine
