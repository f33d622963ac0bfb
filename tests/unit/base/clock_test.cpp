// Tests of clock: dates as text, and that time goes forward.
#include "core/base/clock.h"

#include <array>
#include <limits>
#include <string_view>

#include <doctest/doctest.h>

using namespace sbx;

TEST_CASE("clock: times are written as UTC with milliseconds") {
  struct Row {
    std::int64_t ns;
    std::string_view text;
  };
  constexpr std::int64_t kSecond = 1'000'000'000;
  constexpr std::array kRows{
      Row{0, "1970-01-01T00:00:00.000Z"},
      Row{999'999, "1970-01-01T00:00:00.000Z"},
      Row{1'000'000, "1970-01-01T00:00:00.001Z"},
      Row{-1, "1969-12-31T23:59:59.999Z"},
      Row{951'782'399 * kSecond, "2000-02-28T23:59:59.000Z"},
      Row{951'782'400 * kSecond, "2000-02-29T00:00:00.000Z"},
      Row{1'709'210'096 * kSecond + 125'000'000, "2024-02-29T12:34:56.125Z"},
      Row{4'107'542'400 * kSecond, "2100-03-01T00:00:00.000Z"},
      Row{std::numeric_limits<std::int64_t>::max(), "2262-04-11T23:47:16.854Z"},
      Row{std::numeric_limits<std::int64_t>::min(), "1677-09-21T00:12:43.145Z"},
  };
  for (const Row& row : kRows) {
    CHECK(format_rfc3339(row.ns) == row.text);
  }
}

TEST_CASE("clock: monotonic time does not go back, real time is after 2020") {
  const std::int64_t before = monotonic_ns();
  CHECK(monotonic_ns() >= before);
  CHECK(monotonic_now().v >= before / 1'000'000);
  CHECK(realtime_ns() > 1'577'836'800'000'000'000);
}
