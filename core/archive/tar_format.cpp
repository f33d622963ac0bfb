// Tar format: see tar_format.h.
#include "core/archive/tar_format.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/text.h"

namespace sbx::archive {

std::uint64_t TarEntry::stored_size() const {
  if (type != TarType::kFile) return 0;
  if (!is_sparse) return size;
  std::uint64_t sum = 0;
  for (const Extent& extent : data) {
    sum += extent.length;
  }
  return sum;
}

void limit_extents(std::vector<Extent>& data) {
  std::uint64_t smallest = 4096;
  while (data.size() > kMaxTarExtents) {
    std::vector<Extent> merged;
    for (const Extent& extent : data) {
      if (!merged.empty() &&
          extent.offset - (merged.back().offset + merged.back().length) <= smallest) {
        merged.back().length = extent.offset + extent.length - merged.back().offset;
      } else {
        merged.push_back(extent);
      }
    }
    data = std::move(merged);
    smallest *= 2;
  }
}

}  // namespace sbx::archive

namespace sbx::archive::tar {

namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

Error malformed(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("malformed tar stream: ", what));
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

Result<std::int64_t> base256(std::string_view field) {
  const auto first = static_cast<unsigned char>(field.front());
  const bool is_negative = first == 0xff;
  if (!is_negative && first != 0x80) return malformed("a number is too large");
  std::uint64_t value = is_negative ? ~std::uint64_t{0} : 0;
  for (const char c : field.substr(1)) {
    const std::uint64_t top = value >> 55U;
    if (top != (is_negative ? 0x1ffU : 0U)) return malformed("a number is too large");
    value = (value << 8U) | static_cast<unsigned char>(c);
  }
  return static_cast<std::int64_t>(value);
}

std::string_view bytes(const Header& header) {
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

}  // namespace

Result<std::int64_t> number(std::string_view field) {
  if (!field.empty() && (static_cast<unsigned char>(field.front()) & 0x80U) != 0) {
    return base256(field);
  }
  const std::string_view digits = text::trim(text_field(field));
  std::int64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '7') return malformed("a number has other characters than octal digits");
    value = value * 8 + (c - '0');  // at most 12 digits
  }
  return value;
}

bool set_number(std::span<char> field, std::uint64_t value) {
  std::fill(field.begin(), field.end(), '0');
  field.back() = '\0';
  for (std::size_t i = field.size() - 1; i > 0; --i) {
    field[i - 1] = static_cast<char>('0' + (value & 7U));
    value >>= 3U;
  }
  return value == 0;
}

std::string_view text_field(std::string_view field) {
  return field.substr(0, field.find('\0'));
}

std::uint64_t checksum(const Header& header) {
  std::uint64_t sum = 0;
  for (const char c : bytes(header)) {
    sum += static_cast<unsigned char>(c);
  }
  for (const char c : header.checksum) {
    sum += std::uint64_t{' '} - static_cast<unsigned char>(c);
  }
  return sum;
}

bool is_checksum_right(const Header& header) {
  const auto said = number({header.checksum.data(), header.checksum.size()});
  if (!said.ok()) return false;
  const auto sum = static_cast<std::int64_t>(checksum(header));
  if (said.value() == sum) return true;
  std::int64_t with_sign = sum;
  for (const char c : bytes(header)) {
    if (static_cast<signed char>(c) < 0) with_sign -= 256;
  }
  return said.value() == with_sign;
}

void set_checksum(Header& header) {
  // Six digits, NUL, space, as every tar since V7.
  static_cast<void>(set_number(std::span(header.checksum).first(7), checksum(header)));
  header.checksum[7] = ' ';
}

bool is_zero(const Header& header) {
  const std::string_view all = bytes(header);
  return all.find_first_not_of('\0') == std::string_view::npos;
}

void add_record(std::string& out, std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;  // ' ', '=', '\n'
  std::size_t length = rest + 1;
  while (rest + std::to_string(length).size() != length) {
    length = rest + std::to_string(length).size();
  }
  out += text::cat(length, ' ', key, '=');
  out.append(value);
  out += '\n';
}

Result<std::vector<Record>> records(std::string_view body) {
  std::vector<Record> out;
  while (!body.empty() && body.front() != '\0') {
    const std::size_t space = body.find(' ');
    if (space == std::string_view::npos) return malformed("a pax record has no length");
    SBX_ASSIGN(const std::uint64_t length, decimal(body.substr(0, space)));
    if (length > body.size() || length < space + 3) return malformed("length of a pax record");
    const std::string_view record = body.substr(space + 1, length - space - 2);
    const std::size_t equals = record.find('=');
    if (body[length - 1] != '\n' || equals == std::string_view::npos) {
      return malformed("a pax record is not KEY=VALUE");
    }
    out.emplace_back(record.substr(0, equals), record.substr(equals + 1));
    body.remove_prefix(length);
  }
  return out;
}

Result<std::uint64_t> decimal(std::string_view value) {
  if (value.empty()) return malformed("an empty number");
  std::uint64_t sum = 0;
  for (const char c : value) {
    if (!is_digit(c)) return malformed("a number has other characters than digits");
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (sum > (kMax - digit) / 10) return malformed("a number is too large");
    sum = sum * 10 + digit;
  }
  return sum;
}

Result<std::int64_t> time_ns(std::string_view value) {
  const bool is_negative = value.starts_with('-');
  if (is_negative) value.remove_prefix(1);
  const std::size_t dot = value.find('.');
  SBX_ASSIGN(const std::uint64_t seconds, decimal(value.substr(0, dot)));
  constexpr std::uint64_t kMaxSeconds = kMax / kNsPerSecond - 1;
  if (seconds > kMaxSeconds) return malformed("a time is out of range");
  std::int64_t fraction = 0;
  if (dot != std::string_view::npos) {
    std::int64_t unit = kNsPerSecond / 10;
    for (const char c : value.substr(dot + 1)) {
      if (!is_digit(c)) return malformed("a time has other characters than digits");
      fraction += (c - '0') * unit;
      unit /= 10;
    }
  }
  const std::int64_t ns = static_cast<std::int64_t>(seconds) * kNsPerSecond + fraction;
  return is_negative ? -ns : ns;
}

std::string time_text(std::int64_t ns) {
  const std::uint64_t size =
      ns < 0 ? ~static_cast<std::uint64_t>(ns) + 1 : static_cast<std::uint64_t>(ns);
  std::string out = text::cat(ns < 0 ? "-" : "", size / kNsPerSecond);
  const std::uint64_t rest = size % kNsPerSecond;
  if (rest == 0) return out;
  std::string digits = std::to_string(rest);
  digits.insert(0, 9 - digits.size(), '0');
  digits.erase(digits.find_last_not_of('0') + 1);
  return text::cat(out, '.', digits);
}

}  // namespace sbx::archive::tar
