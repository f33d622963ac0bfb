// Guest wake: gives this machine an identity of its own. Clones of one template are alike to the
// last bit, and so would be all that they draw from the kernel's random numbers.
#pragma once

#include "core/backend/vm/control.h"
#include "core/base/result.h"

namespace sbx::vm {

/// Mixes the host's seed into the kernel's random numbers and has them made anew from it; sets
/// clock and host name. Before anything that draws random numbers to keep them.
///
/// /proc/sys/kernel/random/boot_id needs nothing: the kernel makes it when it is first read (Linux
/// 2.4 to 6.12, proc_do_uuid), so that it is this machine's own as long as nobody reads it in a
/// template.
Status wake(const control::Wake& wake);

}  // namespace sbx::vm
