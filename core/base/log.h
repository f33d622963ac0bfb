// Log: diagnostic lines on standard error, for supervisors and roles; never the user's messages.
// Nothing is set up before the first enabled message.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sbx {

enum class Level : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };

namespace log {

/// Messages below `level` are dropped. The default is Level::kWarn.
void set_level(Level level);

/// Whether a message of `level` would be written; cheap, for guarding costly messages.
bool enabled(Level level);

/// Writes one line; control characters in `message` are escaped. Never fails, never throws.
void write(Level level, std::string_view message);

/// "trace", "debug", "info", "warn", "error", "off"; nullopt for other words.
std::optional<Level> parse_level(std::string_view word);

}  // namespace log
}  // namespace sbx
