// session numbers test: sizes and times as people and programs read them.
#include "cli/session_numbers.h"

#include <doctest/doctest.h>

namespace sbx::cli {

TEST_CASE("session numbers: bytes in units of 1024, one decimal below ten") {
  CHECK(bytes_text(0) == "0B");
  CHECK(bytes_text(1023) == "1023B");
  CHECK(bytes_text(1024) == "1.0K");
  CHECK(bytes_text(10 * 1024 - 1) == "9.9K");
  CHECK(bytes_text(300ULL << 20U) == "300M");
  CHECK(bytes_text(~std::uint64_t{0}) == "15E");
}

TEST_CASE("session numbers: seconds from nanoseconds, cut, never rounded up") {
  CHECK(seconds_text(0) == "0.00");
  CHECK(seconds_text(12'349'999'999) == "12.34");
  CHECK(seconds_number(12'000'001'999) == "12.000001");
  CHECK(seconds_number(999'999'999) == "0.999999");
}

TEST_CASE("session numbers: columns are as wide as their widest cell") {
  const std::array<std::array<std::string, 3>, 2> rows{{{"A", "B", "C"}, {"long", "", "x y"}}};
  CHECK(table_text(std::span<const std::array<std::string, 3>>(rows)) ==
        "A     B  C\nlong     x y\n");
}

}  // namespace sbx::cli
