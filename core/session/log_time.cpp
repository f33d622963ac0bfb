// Log_time: see log_time.h.
#include "core/session/log_time.h"

#include <string>

#include "core/base/text.h"
#include "core/base/units.h"

namespace sbx::session {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// Takes the front of a text apart; the first thing that does not fit makes all later ones fail.
class Scanner {
 public:
  explicit Scanner(std::string_view rest) : rest_(rest) {}

  bool at_end() const { return rest_.empty(); }
  bool ok() const { return ok_; }

  bool take(std::string_view any_of) {
    if (rest_.empty() || any_of.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) { ok_ = take({&c, 1}) && ok_; }
  /// Exactly `width` digits, at most `most`.
  std::int64_t number(std::size_t width, std::int64_t most) {
    std::int64_t value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      value = value * 10 + digit();
    }
    if (value > most) ok_ = false;
    return value;
  }
  /// The digits behind a point as nanoseconds; those beyond the ninth count for nothing.
  std::int64_t fraction() {
    std::int64_t value = 0;
    std::int64_t unit = kNsPerSecond / 10;
    do {
      value += digit() * unit;
      unit /= 10;
    } while (ok_ && !rest_.empty() && is_digit(rest_.front()));
    return value;
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  std::int64_t digit() {
    if (rest_.empty() || !is_digit(rest_.front())) {
      ok_ = false;
      return 0;
    }
    const std::int64_t value = rest_.front() - '0';
    rest_.remove_prefix(1);
    return value;
  }

  std::string_view rest_;
  bool ok_ = true;
};

std::int64_t days_in(std::int64_t year, std::int64_t month) {
  if (month == 2) return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/// Days since 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms").
std::int64_t days_from(std::int64_t year, std::int64_t month, std::int64_t day) {
  const std::int64_t y = year - (month <= 2 ? 1 : 0);
  const std::int64_t era = (y >= 0 ? y : y - 399) / 400;
  const std::int64_t yoe = y - era * 400;
  const std::int64_t doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const std::int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return era * 146'097 + doe - 719'468;
}

struct TimeOfDay {
  std::int64_t seconds = 0;  // in UTC: may be below zero or above a day
  std::int64_t ns = 0;
};

TimeOfDay scan_time(Scanner& scan) {
  TimeOfDay time;
  time.seconds = scan.number(2, 23) * 3600;
  scan.expect(':');
  time.seconds += scan.number(2, 59) * 60;
  if (scan.take(":")) {
    time.seconds += scan.number(2, 60);  // 60: a leap second
    if (scan.take(".,")) time.ns = scan.fraction();
  }
  if (scan.at_end() || scan.take("Zz")) return time;
  const bool is_east = scan.take("+");
  if (!is_east) scan.expect('-');
  std::int64_t offset = scan.number(2, 23) * 3600;
  scan.expect(':');
  offset += scan.number(2, 59) * 60;
  time.seconds -= is_east ? offset : -offset;
  return time;
}

}  // namespace

std::optional<std::int64_t> parse_rfc3339(std::string_view text) {
  Scanner scan(text);
  const std::int64_t year = scan.number(4, 9999);
  scan.expect('-');
  const std::int64_t month = scan.number(2, 12);
  scan.expect('-');
  const std::int64_t day = scan.number(2, 31);
  if (!scan.ok() || month == 0 || day == 0 || day > days_in(year, month)) return std::nullopt;
  if (year < 1678 || year > 2261) return std::nullopt;
  TimeOfDay time;
  if (scan.take("Tt ")) time = scan_time(scan);
  if (!scan.ok() || !scan.at_end()) return std::nullopt;
  return (days_from(year, month, day) * 86'400 + time.seconds) * kNsPerSecond + time.ns;
}

Result<std::int64_t> parse_since(std::string_view text, std::int64_t now_ns) {
  if (const auto time = parse_rfc3339(text)) return *time;
  if (const Result<Millis> ago = parse_duration(text); ago.ok()) {
    constexpr std::int64_t kNsPerMs = 1'000'000;
    const std::int64_t most = now_ns / kNsPerMs;
    return ago.value().v >= most ? 0 : now_ns - ago.value().v * kNsPerMs;
  }
  return Error(
             Errc::kUsage,
             text::cat("'", text::escape(text.substr(0, 64)), "' is neither a time nor a duration"))
      .with_hint("write 10m (ago), 2026-01-31, or 2026-01-31T09:30:00Z");
}

}  // namespace sbx::session
