// Text: joining, splitting, escaping and encoding of byte strings. No locale, no streams.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sbx::text {

/// One argument of cat(): anything like a string, a char, or an integer (printed in decimal).
class Piece {
 public:
  // NOLINTBEGIN(google-explicit-constructor): the whole point is to convert
  Piece(std::string_view s) : data_(s.data()), size_(s.size()) {}
  Piece(const std::string& s) : data_(s.data()), size_(s.size()) {}
  Piece(const char* s) : Piece(std::string_view(s)) {}
  Piece(char c) : size_(1), number_{c} {}
  template <std::signed_integral T>
  Piece(T n) {
    set_signed(n);
  }
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) Piece(T n) { set_unsigned(n); }
  // NOLINTEND(google-explicit-constructor)
  Piece(bool) = delete;

  std::string_view view() const { return {data_ == nullptr ? number_.data() : data_, size_}; }

 private:
  void set_signed(std::int64_t n);
  void set_unsigned(std::uint64_t n);

  const char* data_ = nullptr;
  std::size_t size_ = 0;
  std::array<char, 20> number_{};  // "18446744073709551615" and "-9223372036854775808" both fit
};

/// All pieces one after the other.
std::string join(std::span<const Piece> pieces);

/// `text::cat("open ", path, ": fd ", 3)`: all arguments one after the other.
template <typename... Args>
std::string cat(const Args&... args) {
  const std::array<Piece, sizeof...(Args)> pieces{Piece(args)...};
  return join(pieces);
}

/// `parts` with `separator` between them.
std::string join(std::span<const std::string> parts, std::string_view separator);

/// Text controlled by the inside made safe to print on one line of a terminal: C0 and C1 controls,
/// DEL, line and paragraph separators, and characters that reorder or hide text become `\n`, `\t`,
/// `\r`, `\xNN` or `\u{NNNN}`; bytes that are no UTF-8 become `\xNN`. Everything else, backslashes
/// included, stays, so escaping twice changes nothing.
std::string escape(std::string_view s);

/// Whether `s` is valid UTF-8 (no overlong forms, no surrogates, at most U+10FFFF).
bool is_utf8(std::string_view s);

/// Length of the longest prefix of `s` that is valid UTF-8; for cutting at a limit.
std::size_t utf8_valid_prefix(std::string_view s);

/// The candidate to offer in "did you mean": the smallest edit distance, if that is at most 2 and
/// at most a third of the word's length (at least 1); the first one of equals.
std::optional<std::string> closest(std::string_view word,
                                   std::span<const std::string_view> candidates);
std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates);

/// The fields between `separator`s; always at least one, empty fields kept. The views point into
/// `s`.
std::vector<std::string_view> split(std::string_view s, char separator);

/// `s` without spaces, tabs, CR and LF at both ends.
std::string_view trim(std::string_view s);

/// Standard base64 (RFC 4648 section 4) with padding, one line.
std::string base64(std::string_view data);

/// Two lower-case digits a byte.
std::string hex(std::span<const std::byte> data);

}  // namespace sbx::text
