// Pattern: see pattern.h.
#include "core/run/pattern.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "core/base/text.h"

namespace sbx::run {

namespace {

using Writer = std::size_t (*)(char*, std::size_t, const std::tm*);

struct Conversion {
  char letter;
  Writer write;
};

// One literal format each, so that the compiler checks it.
#define SBX_CONVERSION(letter, format)                            \
  Conversion {                                                    \
    letter, [](char* to, std::size_t size, const std::tm* when) { \
      return std::strftime(to, size, format, when);               \
    }                                                             \
  }

// Names of days and months are English: no locale is ever set.
constexpr std::array kConversions{
    SBX_CONVERSION('Y', "%Y"), SBX_CONVERSION('C', "%C"), SBX_CONVERSION('m', "%m"),
    SBX_CONVERSION('d', "%d"), SBX_CONVERSION('H', "%H"), SBX_CONVERSION('I', "%I"),
    SBX_CONVERSION('p', "%p"), SBX_CONVERSION('M', "%M"), SBX_CONVERSION('S', "%S"),
    SBX_CONVERSION('F', "%F"), SBX_CONVERSION('T', "%T"), SBX_CONVERSION('R', "%R"),
    SBX_CONVERSION('j', "%j"), SBX_CONVERSION('a', "%a"), SBX_CONVERSION('A', "%A"),
    SBX_CONVERSION('b', "%b"), SBX_CONVERSION('h', "%h"), SBX_CONVERSION('B', "%B"),
    SBX_CONVERSION('u', "%u"), SBX_CONVERSION('w', "%w"), SBX_CONVERSION('U', "%U"),
    SBX_CONVERSION('W', "%W"), SBX_CONVERSION('V', "%V"), SBX_CONVERSION('G', "%G"),
    SBX_CONVERSION('z', "%z"),
};
#undef SBX_CONVERSION

Error bad_conversion(const std::string& target, std::string_view conversion) {
  return Error(Errc::kUsage,
               text::cat(
                   "-o/--out ",
                   text::escape(target),
                   ": ",
                   conversion.size() > 1 ? text::escape(conversion) : std::string("% at the end"),
                   " is no date pattern"))
      .with_hint(
          "%Y %m %d %H %M %S %F %j %V %s and some others of sbx-run(1) are; %% is a percent sign");
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

bool is_date_pattern(std::string_view target) {
  return target.find('%') != std::string_view::npos;
}

Result<std::string> expand_date_pattern(const std::string& target, std::int64_t realtime_ns) {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const std::time_t seconds = realtime_ns / kNsPerSecond;
  std::tm when{};
  ::tzset();  // localtime_r(3) need not look at $TZ
  if (::localtime_r(&seconds, &when) == nullptr) return sys_error("localtime", errno);
  std::string out;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      out += target[i];
      continue;
    }
    const char letter = i + 1 < target.size() ? target[++i] : '\0';
    if (letter == '%') {
      out += '%';
      continue;
    }
    if (letter == 's') {  // not of ISO C
      out += text::cat(seconds);
      continue;
    }
    const auto* const found =
        std::find_if(kConversions.begin(), kConversions.end(), [letter](const Conversion& row) {
          return row.letter == letter;
        });
    if (found == kConversions.end()) {
      return bad_conversion(target, std::string_view(target).substr(letter == '\0' ? i : i - 1, 2));
    }
    std::array<char, 64> piece{};
    out.append(piece.data(), found->write(piece.data(), piece.size(), &when));
  }
  return out;
}

Status check_lock_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  const bool is_right = !name.empty() && name.size() <= kLongest &&
                        is_letter_or_digit(name.front()) &&
                        std::all_of(name.begin(), name.end(), [](char c) {
                          return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
                        });
  if (is_right) return {};
  return Error(Errc::kUsage,
               text::cat("--lock: \"", text::escape(name), "\" is no name for a lock"))
      .with_hint(
          "1 to 64 letters, digits, dots, dashes and underscores, the first a letter or digit");
}

}  // namespace sbx::run
