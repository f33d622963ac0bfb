// Pattern: dates in the name of an output place, and the names of locks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace sbx::run {

/// Whether `target` holds a conversion (a '%').
bool is_date_pattern(std::string_view target);

/// `target` with its strftime(3) conversions replaced for the wall time `realtime_ns` (nanoseconds
/// since 1970) in the time zone of this process ($TZ, else /etc/localtime). Only conversions that
/// give letters, digits, '-', '+' and ':' whatever the locale; kUsage names any other one. "%%" is
/// a percent sign.
Result<std::string> expand_date_pattern(const std::string& target, std::int64_t realtime_ns);

/// Whether `name` may name a lock: 1 to 64 of the letters a-z A-Z, digits, '.', '_' and '-', the
/// first one a letter or digit. kUsage says what is wrong.
Status check_lock_name(std::string_view name);

}  // namespace sbx::run
