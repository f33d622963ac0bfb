// Text: the byte-level work behind joining, escaping and encoding.
#include "core/base/text.h"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace sbx::text {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

/// One decoded UTF-8 sequence; size 0 when the bytes at the start are no valid sequence.
struct Decoded {
  std::uint32_t point = 0;
  std::size_t size = 0;
};

/// Size of the sequence that starts with `lead` (RFC 3629), 0 when none can.
std::size_t sequence_size(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;  // continuation byte, or an overlong form of ASCII
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  if (lead < 0xf5) return 4;  // above: beyond U+10FFFF
  return 0;
}

Decoded decode(std::string_view s) {
  const auto lead = static_cast<unsigned char>(s.front());
  const std::size_t size = sequence_size(lead);
  if (size == 1) return {lead, 1};
  if (size == 0 || size > s.size()) return {};
  // Payload bits of the lead byte: 5, 4, 3 for sizes 2, 3, 4.
  std::uint32_t point = lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(s[i]);
    if ((byte & 0xc0U) != 0x80) return {};
    point = (point << 6) | (byte & 0x3fU);
  }
  const bool is_overlong = (size == 3 && point < 0x800) || (size == 4 && point < 0x10000);
  const bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
  if (is_overlong || is_surrogate || point > 0x10ffff) return {};
  return {point, size};
}

struct Range {
  std::uint32_t first, last;
};

/// Characters beyond ASCII that a terminal acts on, that hide, or that reorder their neighbours:
/// C1 controls, Arabic letter mark, zero width space, direction marks, line and paragraph
/// separators, bidi embeddings and isolates, byte order mark, interlinear annotation, tags.
/// U+200C and U+200D stay: Persian, Hindi and emoji need them.
constexpr std::array kUnsafe{
    Range{0x80, 0x9f},
    Range{0x61c, 0x61c},
    Range{0x200b, 0x200b},
    Range{0x200e, 0x200f},
    Range{0x2028, 0x202e},
    Range{0x2066, 0x2069},
    Range{0xfeff, 0xfeff},
    Range{0xfff9, 0xfffb},
    Range{0xe0000, 0xe007f},
};

bool is_unsafe(std::uint32_t point) {
  return std::ranges::any_of(
      kUnsafe, [point](const Range& r) { return point >= r.first && point <= r.last; });
}

void append_byte_escape(std::string& out, char c) {
  const auto byte = static_cast<unsigned char>(c);
  out += "\\x";
  out += kHexDigits[byte >> 4U];
  out += kHexDigits[byte & 0xfU];
}

void append_point_escape(std::string& out, std::uint32_t point) {
  std::array<char, 8> digits{};
  const auto [end, err] = std::to_chars(digits.begin(), digits.end(), point, 16);
  out += "\\u{";
  out.append(digits.begin(), end);
  out += '}';
}

void append_ascii(std::string& out, char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20 && byte != 0x7f) {
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c == '\r') {
    out += "\\r";
  } else {
    append_byte_escape(out, c);
  }
}

/// Damerau-Levenshtein distance with adjacent swaps ("pyhton"), cut off at `limit` + 1.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  const std::size_t gap = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (gap > limit) return limit + 1;
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> now(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, change});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(now);
  }
  return last[b.size()];
}

template <typename S>
std::optional<std::string> closest_of(std::string_view word, std::span<const S> candidates) {
  // A word of a user, so it may be huge; nothing we offer is.
  if (word.size() > 256) return std::nullopt;
  const std::size_t limit = std::clamp<std::size_t>(word.size() / 3, 1, 2);
  std::size_t best = limit + 1;
  std::string_view found;
  for (const S& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate, limit);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  if (best > limit) return std::nullopt;
  return std::string(found);
}

}  // namespace

void Piece::set_signed(std::int64_t n) {
  const auto [end, err] = std::to_chars(number_.begin(), number_.end(), n);
  size_ = static_cast<std::size_t>(end - number_.begin());
}

void Piece::set_unsigned(std::uint64_t n) {
  const auto [end, err] = std::to_chars(number_.begin(), number_.end(), n);
  size_ = static_cast<std::size_t>(end - number_.begin());
}

std::string join(std::span<const Piece> pieces) {
  std::size_t size = 0;
  for (const Piece& piece : pieces) {
    size += piece.view().size();
  }
  std::string out;
  out.reserve(size);
  for (const Piece& piece : pieces) {
    out += piece.view();
  }
  return out;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != parts.data()) out += separator;
    out += part;
  }
  return out;
}

std::string escape(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  while (!s.empty()) {
    const Decoded decoded = decode(s);
    if (decoded.size == 0) {
      append_byte_escape(out, s.front());
      s.remove_prefix(1);
      continue;
    }
    if (decoded.size == 1) {
      append_ascii(out, s.front());
    } else if (is_unsafe(decoded.point)) {
      append_point_escape(out, decoded.point);
    } else {
      out += s.substr(0, decoded.size);
    }
    s.remove_prefix(decoded.size);
  }
  return out;
}

bool is_utf8(std::string_view s) {
  return utf8_valid_prefix(s) == s.size();
}

std::size_t utf8_valid_prefix(std::string_view s) {
  std::size_t at = 0;
  while (at < s.size()) {
    const Decoded decoded = decode(s.substr(at));
    if (decoded.size == 0) break;
    at += decoded.size;
  }
  return at;
}

std::optional<std::string> closest(std::string_view word,
                                   std::span<const std::string_view> candidates) {
  return closest_of(word, candidates);
}

std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates) {
  return closest_of(word, candidates);
}

std::vector<std::string_view> split(std::string_view s, char separator) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t at = s.find(separator);
    fields.push_back(s.substr(0, at));
    if (at == std::string_view::npos) return fields;
    s.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view s) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = s.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(kBlank) - first + 1);
}

std::string base64(std::string_view data) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((data.size() + 2) / 3 * 4);
  for (; !data.empty(); data.remove_prefix(std::min<std::size_t>(3, data.size()))) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto byte = i < data.size() ? static_cast<unsigned char>(data[i]) : std::uint8_t{0};
      bits = (bits << 8) | byte;
    }
    out += kAlphabet[bits >> 18U];
    out += kAlphabet[(bits >> 12U) & 0x3fU];
    out += data.size() > 1 ? kAlphabet[(bits >> 6U) & 0x3fU] : '=';
    out += data.size() > 2 ? kAlphabet[bits & 0x3fU] : '=';
  }
  return out;
}

std::string hex(std::span<const std::byte> data) {
  std::string out;
  out.reserve(data.size() * 2);
  for (const std::byte byte : data) {
    out += kHexDigits[std::to_integer<std::size_t>(byte >> 4)];
    out += kHexDigits[std::to_integer<std::size_t>(byte & std::byte{0xf})];
  }
  return out;
}

}  // namespace sbx::text
