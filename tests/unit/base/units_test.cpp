// Tests of units: what is a size, a duration, a count, and what is refused.
#include "core/base/units.h"

#include <array>
#include <limits>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sbx;

namespace {

constexpr std::uint64_t kMaxU64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::int64_t kMaxI64 = std::numeric_limits<std::int64_t>::max();

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("units: sizes in all accepted forms") {
  struct Row {
    std::string_view text;
    std::uint64_t bytes;
  };
  constexpr std::uint64_t kKi = 1024;
  constexpr std::array kRows{
      Row{"0", 0},
      Row{"1024", 1024},
      Row{"64k", 64 * kKi},
      Row{"64K", 64 * kKi},
      Row{"64KB", 64 * kKi},
      Row{"64kib", 64 * kKi},
      Row{"512M", 512 * kKi * kKi},
      Row{"1GiB", kKi * kKi * kKi},
      Row{"2g", 2 * kKi * kKi * kKi},
      Row{"3T", 3 * kKi * kKi * kKi * kKi},
      Row{"18446744073709551615", kMaxU64},
      Row{"16777215T", 16777215 * kKi * kKi * kKi * kKi},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.text);
    const Result<Bytes> parsed = parse_bytes(row.text);
    REQUIRE(parsed.ok());
    CHECK(parsed.value().v == row.bytes);
  }
}

TEST_CASE("units: 1.5G and other sizes are refused, the message shows the accepted forms") {
  constexpr std::array<std::string_view, 22> kTexts{
      "",    "1.5G",  "0x10", "010", "1_000", "-1", "+1",  " 1", "1 ", "1 M", "M",
      "1MM", "1KiBx", "1Ki",  "1P",  "1E",    "١",  "1e3", "00", "1b", "inf", "1MiBB"};
  for (const std::string_view text : kTexts) {
    CAPTURE(text);
    const Result<Bytes> parsed = parse_bytes(text);
    REQUIRE(!parsed.ok());
    CHECK(parsed.error().code() == Errc::kUsage);
    CHECK(contains(parsed.error().message(), "512M or 2GiB"));
  }
}

TEST_CASE("units: sizes beyond 64 bits are refused, not wrapped") {
  for (const std::string_view text :
       {"18446744073709551616", "16777216T", "99999999999999999999999G"}) {
    CAPTURE(text);
    const Result<Bytes> parsed = parse_bytes(text);
    REQUIRE(!parsed.ok());
    CHECK(contains(parsed.error().message(), "too large"));
  }
}

TEST_CASE("units: a NUL or a control character in a size is shown escaped and cut") {
  const Result<Bytes> parsed = parse_bytes(std::string("1\0K\x1b", 4) + std::string(5000, 'x'));
  REQUIRE(!parsed.ok());
  CHECK(contains(parsed.error().message(), "'1\\x00K\\x1bxx"));
  CHECK(parsed.error().message().size() < 300);
}

TEST_CASE("units: durations in all accepted forms") {
  struct Row {
    std::string_view text;
    std::int64_t millis;
  };
  constexpr std::array kRows{
      Row{"0s", 0},
      Row{"500ms", 500},
      Row{"30s", 30'000},
      Row{"5m", 300'000},
      Row{"2h", 7'200'000},
      Row{"1d", 86'400'000},
      Row{"9223372036854775807ms", kMaxI64},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.text);
    const Result<Millis> parsed = parse_duration(row.text);
    REQUIRE(parsed.ok());
    CHECK(parsed.value().v == row.millis);
  }
}

TEST_CASE("units: a bare number and other durations are refused with the accepted forms") {
  constexpr std::array<std::string_view, 14> kTexts{"",
                                                    "30",
                                                    "0",
                                                    "1.5s",
                                                    "-1s",
                                                    "1 s",
                                                    "s",
                                                    "01s",
                                                    "1S",
                                                    "1w",
                                                    "1mss",
                                                    "1us",
                                                    "1e3s",
                                                    "9223372036854775808ms"};
  for (const std::string_view text : kTexts) {
    CAPTURE(text);
    const Result<Millis> parsed = parse_duration(text);
    REQUIRE(!parsed.ok());
    CHECK(parsed.error().code() == Errc::kUsage);
    CHECK(contains(parsed.error().message(), "500ms, 30s, 5m, 2h or 1d"));
  }
  CHECK(contains(parse_duration("30").error().message(), "'30' has no unit"));
}

TEST_CASE("units: counts are plain decimal digits") {
  CHECK(parse_count("0").value() == 0);
  CHECK(parse_count("18446744073709551615").value() == kMaxU64);
  for (const std::string_view text : {"", "-1", "+1", "01", "1k", "1_0", "18446744073709551616"}) {
    CAPTURE(text);
    CHECK(!parse_count(text).ok());
  }
}

TEST_CASE("units: what is written reads back as the same") {
  for (const std::uint64_t bytes : {std::uint64_t{0},
                                    std::uint64_t{1},
                                    std::uint64_t{1000},
                                    std::uint64_t{1536},
                                    std::uint64_t{1} << 20,
                                    std::uint64_t{1} << 50,
                                    kMaxU64}) {
    CAPTURE(to_string(Bytes{bytes}));
    CHECK(parse_bytes(to_string(Bytes{bytes})).value().v == bytes);
  }
  for (const std::int64_t millis :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{1500}, std::int64_t{90'000}, kMaxI64}) {
    CAPTURE(to_string(Millis{millis}));
    CHECK(parse_duration(to_string(Millis{millis})).value().v == millis);
  }
}

TEST_CASE("units: the shortest exact form is written") {
  CHECK(to_string(Bytes{512ULL << 20}) == "512M");
  CHECK(to_string(Bytes{1ULL << 30}) == "1G");
  CHECK(to_string(Bytes{1000}) == "1000");
  CHECK(to_string(Millis{90'000}) == "90s");
  CHECK(to_string(Millis{120'000}) == "2m");
  CHECK(to_string(Millis{1500}) == "1500ms");
  CHECK(to_string(Millis{172'800'000}) == "2d");
  CHECK(to_string(Millis{0}) == "0s");
  CHECK(to_string(Millis{-5}) == "-5ms");
  CHECK(to_string(Millis{std::numeric_limits<std::int64_t>::min()}) == "-9223372036854775808ms");
}
