// Units: the strict readers and the exact writers of sizes, durations and counts.
#include "core/base/units.h"

#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "core/base/text.h"

namespace sbx {
namespace {

constexpr std::string_view kBytesForms =
    "a whole number with an optional unit K, M, G or T, such as 1024, 64K, 512M or 2GiB";
constexpr std::string_view kDurationForms =
    "a whole number with a unit, such as 500ms, 30s, 5m, 2h or 1d";

struct Unit {
  std::string_view suffix;
  std::uint64_t factor;
};

constexpr std::array kDurationUnits{
    Unit{"ms", 1},
    Unit{"s", 1000},
    Unit{"m", 60'000},
    Unit{"h", 3'600'000},
    Unit{"d", 86'400'000},
};

constexpr std::string_view kByteUnits = "KMGT";  // 1024 to the power of 1, 2, 3, 4

struct Number {
  std::uint64_t value;
  std::string_view rest;
};

enum class Digits : std::uint8_t { kOk, kMalformed, kTooLarge };

/// The leading digits of `text`; a leading zero is only right as the whole number "0".
Digits read_digits(std::string_view text, Number& number) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return Digits::kMalformed;
  const auto [end, err] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number.value, 10);
  if (err != std::errc()) return Digits::kTooLarge;
  number.rest = text.substr(digits.size());
  return Digits::kOk;
}

/// 1024^n for "K", "kb", "KiB" and so on; nullopt for anything else.
std::optional<std::uint64_t> byte_factor(std::string_view suffix) {
  if (suffix.empty()) return 1;
  constexpr auto kUpper = [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  };
  const std::size_t power = kByteUnits.find(kUpper(suffix.front()));
  if (power == std::string_view::npos) return std::nullopt;
  std::string tail;
  for (const char c : suffix.substr(1, 3)) {
    tail += kUpper(c);
  }
  if (!tail.empty() && tail != "B" && tail != "IB") return std::nullopt;
  return std::uint64_t{1} << (10 * (power + 1));
}

Error refused(std::string_view text, std::string_view why, std::string_view forms) {
  // The text comes from a command line or a file: cut it before it becomes a message.
  constexpr std::size_t kShown = 64;
  const std::string shown = text::escape(text.substr(0, kShown));
  return {
      Errc::kUsage,
      text::cat("'", shown, text.size() > kShown ? "..." : "", "' ", why, "; expected ", forms)};
}

std::optional<std::uint64_t> product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  Number number{};
  const Digits digits = read_digits(text, number);
  if (digits == Digits::kMalformed) return refused(text, "is not a size", kBytesForms);
  if (digits == Digits::kTooLarge) return refused(text, "is too large a size", kBytesForms);
  const std::optional<std::uint64_t> factor = byte_factor(number.rest);
  if (!factor.has_value()) return refused(text, "is not a size", kBytesForms);
  const std::optional<std::uint64_t> bytes = product(number.value, *factor);
  if (!bytes.has_value()) return refused(text, "is too large a size", kBytesForms);
  return Bytes{*bytes};
}

Result<Millis> parse_duration(std::string_view text) {
  Number number{};
  const Digits digits = read_digits(text, number);
  if (digits == Digits::kMalformed) return refused(text, "is not a duration", kDurationForms);
  if (digits == Digits::kTooLarge) return refused(text, "is too long a duration", kDurationForms);
  if (number.rest.empty()) return refused(text, "has no unit", kDurationForms);
  for (const Unit& unit : kDurationUnits) {
    if (unit.suffix != number.rest) continue;
    const std::optional<std::uint64_t> millis = product(number.value, unit.factor);
    if (!millis.has_value() || !std::in_range<std::int64_t>(*millis)) {
      return refused(text, "is too long a duration", kDurationForms);
    }
    return Millis{static_cast<std::int64_t>(*millis)};
  }
  return refused(text, "is not a duration", kDurationForms);
}

Result<std::uint64_t> parse_count(std::string_view text) {
  constexpr std::string_view kForms = "a whole number in decimal digits, such as 0 or 256";
  Number number{};
  const Digits digits = read_digits(text, number);
  if (digits == Digits::kTooLarge) return refused(text, "is too large a number", kForms);
  if (digits == Digits::kMalformed || !number.rest.empty()) {
    return refused(text, "is not a count", kForms);
  }
  return number.value;
}

std::string to_string(Bytes bytes) {
  std::uint64_t value = bytes.v;
  std::size_t power = 0;
  while (value != 0 && value % 1024 == 0 && power < kByteUnits.size()) {
    value /= 1024;
    ++power;
  }
  if (power == 0) return text::cat(value);
  return text::cat(value, kByteUnits[power - 1]);
}

std::string to_string(Millis millis) {
  // Through unsigned, because -INT64_MIN does not exist.
  const bool is_negative = millis.v < 0;
  const auto bits = static_cast<std::uint64_t>(millis.v);
  const std::uint64_t size = is_negative ? 0 - bits : bits;
  Unit best{"s", 1000};
  if (size % 1000 != 0) {
    best = kDurationUnits.front();
  } else if (size != 0) {
    for (const Unit& unit : kDurationUnits) {
      if (size % unit.factor == 0) best = unit;
    }
  }
  return text::cat(is_negative ? "-" : "", size / best.factor, best.suffix);
}

}  // namespace sbx
