// Log_time test: RFC 3339 in all its forms, and what --since means.
#include "core/session/log_time.h"

#include <doctest/doctest.h>

#include "core/base/clock.h"

using namespace sbx;
using namespace sbx::session;

TEST_CASE("log time: RFC 3339 is read with any offset, and what is left out is zero") {
  struct Row {
    const char* text;
    std::int64_t seconds;
    std::int64_t ns = 0;
  };
  for (const Row& row : {Row{"1970-01-01T00:00:00Z", 0},
                         Row{"1970-01-01", 0},
                         Row{"2026-01-31T09:30:00.125Z", 1769851800, 125000000},
                         Row{"2026-01-31T10:30:00.125+01:00", 1769851800, 125000000},
                         Row{"2026-01-31t04:00:00,125-05:30", 1769851800, 125000000},
                         Row{"2026-01-31 09:30", 1769851800},
                         Row{"2026-01-31T09:30+00:00", 1769851800},
                         Row{"2026-01-31T09:30:00.1234567899z", 1769851800, 123456789},
                         Row{"2024-02-29", 1709164800},
                         Row{"1969-12-31T23:59:59Z", -1},
                         Row{"1678-01-01", -9214560000},
                         Row{"2261-12-31T23:59:59Z", 9214646399}}) {
    CAPTURE(row.text);
    const auto time = parse_rfc3339(row.text);
    REQUIRE(time.has_value());
    CHECK(*time == row.seconds * 1000000000 + row.ns);
  }
}

TEST_CASE("log time: anything else is refused") {
  for (const char* text : {"",
                           "2026",
                           "2026-1-31",
                           "2026-02-29",
                           "2026-00-01",
                           "2026-01-00",
                           "2026-13-01",
                           "2026-01-31T",
                           "2026-01-31T24:00:00Z",
                           "2026-01-31T09:60:00Z",
                           "2026-01-31T09:30:61Z",
                           "2026-01-31T09:30:00.Z",
                           "2026-01-31T09:30:00ZZ",
                           "2026-01-31T09:30:00+1",
                           "2026-01-31T09:30:00+01:00x",
                           "2026-01-31T09:30:00*01:00",
                           " 2026-01-31",
                           "1677-12-31",
                           "2262-01-01",
                           "+2026-01-31"}) {
    CAPTURE(text);
    CHECK(!parse_rfc3339(text).has_value());
  }
}

TEST_CASE("log time: what format_rfc3339 writes is read back") {
  for (std::int64_t ms = -5000000000000; ms < 5000000000000; ms += 98765432123) {
    REQUIRE(parse_rfc3339(format_rfc3339(ms * 1000000)) == ms * 1000000);
  }
}

TEST_CASE("log time: since is a time, or a duration before now") {
  constexpr std::int64_t kNow = 1769851800000000000;
  CHECK(parse_since("10m", kNow).value() == kNow - 600000000000);
  CHECK(parse_since("500ms", kNow).value() == kNow - 500000000);
  CHECK(parse_since("2026-01-31", kNow).value() == 1769817600000000000);
  CHECK(parse_since("200000d", kNow).value() == 0);
  for (const char* text : {"", "10", "yesterday", "-5m", "m"}) {
    CAPTURE(text);
    const auto failed = parse_since(text, kNow);
    REQUIRE(!failed.ok());
    CHECK(failed.error().code() == Errc::kUsage);
    CHECK(!failed.error().hint().empty());
  }
}
