// Session numbers: see session_numbers.h.
#include "cli/session_numbers.h"

#include <string_view>

#include "core/base/text.h"

namespace sbx::cli {

std::string seconds_text(std::uint64_t ns) {
  constexpr std::uint64_t kNsPerHundredth = 10'000'000;
  const std::uint64_t hundredths = ns / kNsPerHundredth;
  const std::string rest = std::to_string(100 + hundredths % 100).substr(1);
  return text::cat(hundredths / 100, ".", rest);
}

std::string seconds_number(std::uint64_t ns) {
  constexpr std::uint64_t kNsPerMicro = 1000;
  constexpr std::uint64_t kMicros = 1'000'000;
  const std::uint64_t micros = ns / kNsPerMicro;
  const std::string rest = std::to_string(kMicros + micros % kMicros).substr(1);
  return text::cat(micros / kMicros, ".", rest);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::string_view kUnits = "BKMGTPE";
  std::size_t unit = 0;
  std::uint64_t rest = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    rest = bytes % 1024;
    bytes /= 1024;
    ++unit;
  }
  if (unit == 0 || bytes >= 10) return text::cat(bytes, kUnits[unit]);
  return text::cat(bytes, ".", rest * 10 / 1024, kUnits[unit]);
}

}  // namespace sbx::cli
