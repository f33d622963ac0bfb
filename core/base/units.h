// Units: sizes and durations as types, read from and written as text with overflow checks.
// No locale, no fractions, no signs: a limit is never guessed.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace sbx {

/// A number of bytes.
struct Bytes {
  std::uint64_t v = 0;
  auto operator<=>(const Bytes&) const = default;
};

/// A number of milliseconds; negative only as the difference of two times.
struct Millis {
  std::int64_t v = 0;
  auto operator<=>(const Millis&) const = default;
};

/// Reads "1024", "64k", "512M", "2G", "1GiB" (K M G T, optionally "B" or "iB", either case, powers
/// of 1024; a bare number is bytes). kUsage with the accepted forms for anything else, and when the
/// product does not fit into 64 bits.
Result<Bytes> parse_bytes(std::string_view text);

/// Reads "500ms", "30s", "5m", "2h", "1d". A bare number is refused: nobody knows its unit.
/// kUsage with the accepted forms for anything else, and when it does not fit.
Result<Millis> parse_duration(std::string_view text);

/// Reads a decimal count: digits only, no sign, no leading zero, no separators. kUsage otherwise.
Result<std::uint64_t> parse_count(std::string_view text);

/// The shortest exact form that parse_bytes reads back: "512M", "1G", "1000".
std::string to_string(Bytes bytes);

/// The shortest exact form that parse_duration reads back: "90s", "2m", "1500ms", "0s".
std::string to_string(Millis millis);

}  // namespace sbx
