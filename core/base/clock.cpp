// Clock: reads the two clocks and turns days since 1970 into a date without a time zone file.
#include "core/base/clock.h"

#include <ctime>

#include "core/base/text.h"

namespace sbx {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::int64_t kNsPerMs = 1'000'000;

std::int64_t now_ns(clockid_t clock) {
  timespec ts{};
  ::clock_gettime(clock, &ts);  // cannot fail for these two clocks (clock_gettime(2))
  return ts.tv_sec * kNsPerSecond + ts.tv_nsec;
}

/// `value` in at least `width` digits.
std::string padded(std::int64_t value, std::size_t width) {
  std::string digits = text::cat(value);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

}  // namespace

Millis monotonic_now() {
  return Millis{monotonic_ns() / kNsPerMs};
}

std::int64_t monotonic_ns() {
  return now_ns(CLOCK_MONOTONIC);
}

std::int64_t realtime_ns() {
  return now_ns(CLOCK_REALTIME);
}

std::string format_rfc3339(std::int64_t realtime) {
  const std::int64_t ms = floor_div(realtime, kNsPerMs);
  const std::int64_t days = floor_div(ms, 86'400'000);
  const std::int64_t in_day = ms - days * 86'400'000;
  // Gregorian date from a day count: eras of 400 years (146097 days) that begin on 1 March, so that
  // the leap day is the last of its year (Hinnant, "chrono-compatible low-level date algorithms").
  const std::int64_t shifted = days + 719'468;  // days since 0000-03-01
  const std::int64_t era = floor_div(shifted, 146'097);
  const std::int64_t doe = shifted - era * 146'097;
  const std::int64_t yoe = (doe - doe / 1460 + doe / 36'524 - doe / 146'096) / 365;
  const std::int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const std::int64_t mp = (5 * doy + 2) / 153;
  const std::int64_t day = doy - (153 * mp + 2) / 5 + 1;
  const std::int64_t month = mp < 10 ? mp + 3 : mp - 9;
  const std::int64_t year = yoe + era * 400 + (month <= 2 ? 1 : 0);
  const std::string date = text::cat(padded(year, 4), "-", padded(month, 2), "-", padded(day, 2));
  const std::int64_t seconds = in_day / 1000;
  const std::string hms = text::cat(
      padded(seconds / 3600, 2), ":", padded(seconds / 60 % 60, 2), ":", padded(seconds % 60, 2));
  return text::cat(date, "T", hms, ".", padded(in_day % 1000, 3), "Z");
}

}  // namespace sbx
