// Log_time: times as people and logs write them. Reads no time zone and no locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/result.h"

namespace sbx::session {

/// Nanoseconds since 1970 of "2026-01-31T09:30:00.125Z": RFC 3339, with any offset; a blank may
/// stand for the T. What is left out counts as zero, from the seconds to the whole time of day, and
/// no offset as UTC. nullopt for anything else, and outside of what 64 bits hold (1678 to 2261).
std::optional<std::int64_t> parse_rfc3339(std::string_view text);

/// The wall time that `--since` means: a duration ("10m") before `now_ns`, or a time as above.
/// kUsage names the forms.
Result<std::int64_t> parse_since(std::string_view text, std::int64_t now_ns);

}  // namespace sbx::session
