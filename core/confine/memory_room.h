// Memory room: how much memory is left here, for the host and for the control groups around us.
// A look at one moment; it reserves nothing.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx::confine {

/// The least of MemAvailable (proc(5)) and, for our own memory group and each one above it that we
/// can see, its limit less what cannot be reclaimed of its use. `root` is put before every path
/// ("" on a real host). kSystem or kNotFound when /proc/meminfo cannot be read.
Result<Bytes> memory_room(const std::string& root = {});

}  // namespace sbx::confine
