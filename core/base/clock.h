// Clock: monotonic and wall time, and wall time as text. Reads no time zone and no locale.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/units.h"

namespace sbx {

/// CLOCK_MONOTONIC in milliseconds, rounded down. For time-outs; stands still while the machine is
/// suspended.
Millis monotonic_now();

/// CLOCK_MONOTONIC in nanoseconds. For measuring.
std::int64_t monotonic_ns();

/// CLOCK_REALTIME in nanoseconds since 1970-01-01T00:00:00Z. For records, never for time-outs.
std::int64_t realtime_ns();

/// UTC with milliseconds, "2026-01-31T09:30:00.125Z", for `realtime` nanoseconds since 1970.
/// Negative values (before 1970) are right as well; all int64 values have a four-digit year.
std::string format_rfc3339(std::int64_t realtime);

}  // namespace sbx
