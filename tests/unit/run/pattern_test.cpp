// pattern test: dates in output names, and names of locks.
#include "core/run/pattern.h"

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

namespace sbx::run {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/// What `target` becomes in the time zone `zone`.
std::string expanded(const std::string& target, std::int64_t seconds, const char* zone = "UTC") {
  const char* const before = std::getenv("TZ");
  const std::string old = before == nullptr ? "" : before;
  ::setenv("TZ", zone, 1);
  const auto out = expand_date_pattern(target, seconds * kSecond);
  if (before == nullptr) {
    ::unsetenv("TZ");
  } else {
    ::setenv("TZ", old.c_str(), 1);
  }
  return out.ok() ? out.value() : "refused: " + out.error().message();
}

}  // namespace

TEST_CASE("pattern: conversions are filled in, all else stays") {
  constexpr std::int64_t kWhen = 1'769'851'805;  // 2026-01-31 09:30:05 UTC, a Saturday
  CHECK(expanded("reports/%Y-%m-%d", kWhen) == "reports/2026-01-31");
  CHECK(expanded("%F_%H%M%S.tar.gz", kWhen) == "2026-01-31_093005.tar.gz");
  CHECK(expanded("%a %A %b %B %j %u %G-W%V", kWhen) == "Sat Saturday Jan January 031 6 2026-W05");
  CHECK(expanded("%s%z", kWhen) == "1769851805+0000");
  CHECK(expanded("100%%", kWhen) == "100%");
  CHECK(expanded("bad\xff name", kWhen) == "bad\xff name");
}

TEST_CASE("pattern: the time is local, and %z tells a repeated hour apart") {
  constexpr std::int64_t kSummer = 1'792'888'200;  // 2026-10-25 00:30 UTC
  CHECK(expanded("%H:%M %z", kSummer, "CET-1CEST,M3.5.0,M10.5.0/3") == "02:30 +0200");
  CHECK(expanded("%H:%M %z", kSummer + 3600, "CET-1CEST,M3.5.0,M10.5.0/3") == "02:30 +0100");
}

TEST_CASE("pattern: what is no date, or would make directories or spaces, is refused by name") {
  for (const std::string bad : {"%D", "%n", "%c", "%x", "%Ey", "%5d", "%Q", "%-d", "%e"}) {
    CAPTURE(bad);
    CHECK(expanded("a/" + bad, 0).find(bad.substr(0, 2) + " is no date pattern") !=
          std::string::npos);
  }
  CHECK(expanded("a%", 0).find("% at the end") != std::string::npos);
}

TEST_CASE("pattern: only plain names name locks") {
  for (const std::string& good : {std::string("a"),
                                  std::string("daily"),
                                  std::string("Daily-2.x_y"),
                                  std::string("7"),
                                  std::string(64, 'n')}) {
    CHECK(check_lock_name(good).ok());
  }
  const std::string with_nul("a\0b", 3);
  for (const std::string& bad : {std::string(),
                                 std::string("."),
                                 std::string(".."),
                                 std::string("-x"),
                                 std::string("_x"),
                                 std::string("a/b"),
                                 std::string("a b"),
                                 std::string("\xc3\xa9"),
                                 with_nul,
                                 std::string("a\n"),
                                 std::string(65, 'n')}) {
    CAPTURE(bad);
    CHECK_FALSE(check_lock_name(bad).ok());
  }
}

}  // namespace sbx::run
