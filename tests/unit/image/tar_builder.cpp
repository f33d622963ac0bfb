// tar_builder: see tar_builder.h.
#include "tests/unit/image/tar_builder.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace sbx::image::test {

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kNameSize = 100;
constexpr std::uint64_t kMostOctal7 = 07777777;
constexpr std::uint64_t kMostOctal11 = 077777777777;

void put(std::string& block, std::size_t at, std::size_t size, std::string_view text) {
  std::memcpy(block.data() + at, text.data(), std::min(text.size(), size));
}

/// `digits` octal digits and a NUL.
std::string octal(std::uint64_t value, int digits) {
  std::string text(static_cast<std::size_t>(digits) + 1, '\0');
  for (int i = digits; i > 0; --i) {
    text[static_cast<std::size_t>(i) - 1] = static_cast<char>('0' + (value & 7U));
    value >>= 3U;
  }
  return text;
}

std::string padded(std::string_view content) {
  std::string text(content);
  text.resize((text.size() + kBlock - 1) / kBlock * kBlock, '\0');
  return text;
}

}  // namespace

std::string pax_record(const std::string& key, const std::string& value) {
  const std::size_t rest = key.size() + value.size() + 3;  // ' ', '=' and '\n'
  std::size_t size = rest + 1;
  while (std::to_string(size).size() + rest != size)
    ++size;
  return std::to_string(size) + " " + key + "=" + value + "\n";
}

TarBuilder& TarBuilder::dir(const std::string& name, std::uint32_t mode) {
  return add({.name = name, .type = '5', .mode = mode});
}

TarBuilder& TarBuilder::file(const std::string& name,
                             std::string_view content,
                             std::uint32_t mode) {
  return add({.name = name, .mode = mode}, content);
}

TarBuilder& TarBuilder::symlink(const std::string& name, const std::string& target) {
  return add({.name = name, .type = '2', .mode = 0777, .link = target});
}

TarBuilder& TarBuilder::hard_link(const std::string& name, const std::string& target) {
  return add({.name = name, .type = '1', .link = target});
}

TarBuilder& TarBuilder::add(const TarHeader& header, std::string_view content) {
  return add_sized(header, content, content.size());
}

TarBuilder& TarBuilder::add_sized(const TarHeader& header,
                                  std::string_view content,
                                  std::uint64_t size) {
  std::vector<std::pair<std::string, std::string>> records;
  if (header.name.size() > kNameSize) records.emplace_back("path", header.name);
  if (header.link.size() > kNameSize) records.emplace_back("linkpath", header.link);
  if (header.uid > kMostOctal7) records.emplace_back("uid", std::to_string(header.uid));
  if (header.gid > kMostOctal7) records.emplace_back("gid", std::to_string(header.gid));
  if (size > kMostOctal11) records.emplace_back("size", std::to_string(size));
  if (header.mtime < 0) records.emplace_back("mtime", std::to_string(header.mtime));
  if (!records.empty()) pax(records);
  std::string block(kBlock, '\0');
  put(block, 0, kNameSize, header.name);
  put(block, 100, 8, octal(header.mode, 7));
  put(block, 108, 8, octal(std::min(header.uid, kMostOctal7), 7));
  put(block, 116, 8, octal(std::min(header.gid, kMostOctal7), 7));
  put(block, 124, 12, octal(std::min(size, kMostOctal11), 11));
  put(block,
      136,
      12,
      octal(static_cast<std::uint64_t>(std::max<std::int64_t>(header.mtime, 0)), 11));
  block[156] = header.type;
  put(block, 157, kNameSize, header.link);
  put(block,
      257,
      8,
      std::string_view("ustar\0"
                       "00",
                       8));
  put(block, 329, 8, octal(header.major, 7));
  put(block, 337, 8, octal(header.minor, 7));
  put(block, 148, 8, "        ");
  std::uint64_t sum = 0;
  for (const char c : block)
    sum += static_cast<unsigned char>(c);
  put(block, 148, 7, octal(sum, 6));
  bytes_ += block + padded(content);
  return *this;
}

TarBuilder& TarBuilder::pax(const std::vector<std::pair<std::string, std::string>>& records,
                            char type) {
  std::string text;
  for (const auto& [key, value] : records)
    text += pax_record(key, value);
  return add({.name = "pax", .type = type}, text);
}

TarBuilder& TarBuilder::gnu_long(char type, const std::string& name) {
  return add({.name = "././@LongLink", .type = type}, name + std::string(1, '\0'));
}

TarBuilder& TarBuilder::raw(std::string_view bytes) {
  bytes_ += bytes;
  return *this;
}

std::string TarBuilder::end() const {
  return bytes_ + std::string(2 * kBlock, '\0');
}

}  // namespace sbx::image::test
