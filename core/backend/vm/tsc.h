// TSC: how fast this processor's time stamp counter runs. An emulated machine has the same counter.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"

namespace sbx::vm {

/// In kHz, as it was measured once since the host started: kept in `state_dir`. Blocks for 30 ms
/// the first time.
Result<uint64_t> tsc_khz(const std::string& state_dir);

/// Measures it; blocks for 30 ms.
uint64_t measure_tsc_khz();

}  // namespace sbx::vm
