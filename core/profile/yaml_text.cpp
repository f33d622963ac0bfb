// Yaml_text: encoding, control characters and tabs, each found with its position.
#include "core/profile/yaml_text.h"

#include <algorithm>

#include "core/base/text.h"

namespace sbx::profile {
namespace {

constexpr int kMostBadLines = 5;  // a Latin-1 or binary file needs no hundred reports

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

unsigned char byte_at(std::string_view s, std::size_t i) {
  return i < s.size() ? static_cast<unsigned char>(s[i]) : 0;
}

/// UTF-16 and UTF-32 by their mark, or by the zero bytes that ASCII text has in them.
bool looks_like_utf16(std::string_view s) {
  if (s.starts_with("\xFF\xFE") || s.starts_with("\xFE\xFF")) return true;
  if (s.size() < 4) return false;
  return (s[0] == '\0') != (s[1] == '\0') && (s[2] == '\0') != (s[3] == '\0') &&
         (s[0] == '\0') == (s[2] == '\0');
}

std::string hex_byte(unsigned char byte) {
  const std::byte value{byte};
  return text::cat("0x", text::hex({&value, 1}));
}

/// The length of a character at `i` that shows a text other than it is, or controls a terminal.
std::size_t hidden_length(std::string_view s, std::size_t i) {
  const unsigned char a = byte_at(s, i);
  if ((a < 0x20 && a != '\t' && a != '\n' && a != '\r') || a == 0x7F) return 1;
  const unsigned char b = byte_at(s, i + 1);
  if (a == 0xC2 && b >= 0x80 && b <= 0x9F) return 2;  // C1 controls
  if (a != 0xE2) return 0;
  const unsigned char c = byte_at(s, i + 2);
  const bool is_bidi = (b == 0x80 && c >= 0xAA && c <= 0xAE) ||  // embedding, override
                       (b == 0x81 && c >= 0xA6 && c <= 0xA9);    // isolates
  const bool is_break = b == 0x80 && (c == 0xA8 || c == 0xA9);   // line, paragraph separator
  return is_bidi || is_break ? 3 : 0;
}

void replace_invalid_utf8(std::string& clean, Diagnostics& diagnostics) {
  int bad_lines = 0;
  std::size_t line_end = 0;  // of the last reported line
  std::size_t done = 0;
  while (true) {
    done += text::utf8_valid_prefix(std::string_view(clean).substr(done));
    if (done >= clean.size()) return;
    const unsigned char bad = byte_at(clean, done);
    if (bad_lines < kMostBadLines && done >= line_end) {
      diagnostics.add(position_of(clean, done),
                      text::cat("byte ", hex_byte(bad), " is not UTF-8: save the file as UTF-8"));
      ++bad_lines;
      line_end = std::min(clean.find('\n', done), clean.size());
    }
    clean[done] = '?';
  }
}

void replace_hidden(std::string& clean, Diagnostics& diagnostics) {
  int found = 0;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    const std::size_t length = hidden_length(clean, i);
    if (length == 0) continue;
    if (++found <= kMostBadLines) {
      const std::string shown = clean[i] == '\0' ? std::string("NUL byte")
                                                 : text::cat("invisible character ",
                                                             text::escape(clean.substr(i, length)));
      diagnostics.add(
          position_of(clean, i),
          text::cat(shown,
                    " in the file: remove it, or write it as an escape in \"double quotes\""));
    }
    std::fill_n(clean.begin() + static_cast<std::ptrdiff_t>(i), length, ' ');
  }
}

/// A line that starts with a tab is never right in YAML (a block scalar's lines start with spaces).
void replace_leading_tabs(std::string& clean, Diagnostics& diagnostics) {
  int line = 0;
  std::size_t start = 0;
  while (start < clean.size()) {
    ++line;
    const std::size_t end = std::min(clean.find('\n', start), clean.size());
    const std::size_t first = std::min(clean.find_first_not_of(" \t\r", start), end);
    const bool is_blank = first == end || clean[first] == '#';
    if (clean[start] == '\t') {
      if (!is_blank) diagnostics.add({line, 1}, "indented with a tab: YAML wants spaces here");
      std::replace(clean.begin() + static_cast<std::ptrdiff_t>(start),
                   clean.begin() + static_cast<std::ptrdiff_t>(first),
                   '\t',
                   ' ');
    }
    start = end + 1;
  }
}

}  // namespace

Position position_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t newline = before.rfind('\n');
  const std::string_view line =
      newline == std::string_view::npos ? before : before.substr(newline + 1);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const auto columns =
      std::count_if(line.begin(), line.end(), [](char c) { return !is_continuation(c); });
  return {static_cast<int>(lines) + 1, static_cast<int>(columns) + 1};
}

std::string clean_yaml_text(std::string_view text, Diagnostics& diagnostics) {
  if (looks_like_utf16(text)) {
    diagnostics.add({1, 1}, "the file is UTF-16 or UTF-32: save it as UTF-8");
    return {};
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::string clean(text);
  replace_invalid_utf8(clean, diagnostics);
  replace_hidden(clean, diagnostics);
  replace_leading_tabs(clean, diagnostics);
  // Without it yaml-cpp places an unclosed quote at the end of the file.
  if (!clean.empty() && clean.back() != '\n') clean += '\n';
  return clean;
}

}  // namespace sbx::profile
