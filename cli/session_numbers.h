// Session numbers: sizes and times as `session ps` and `session stats` print them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sbx::cli {

/// "12.34"
std::string seconds_text(std::uint64_t ns);
/// "12.345678", for JSON.
std::string seconds_number(std::uint64_t ns);
/// "512B", "1.5K", "300M": rounded, powers of 1024.
std::string bytes_text(std::uint64_t bytes);

/// Columns, each as wide as its widest cell; the last one as it is.
template <std::size_t N>
std::string table_text(std::span<const std::array<std::string, N>> rows) {
  std::array<std::size_t, N> width{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < N; ++i) {
      width[i] = std::max(width[i], row[i].size());
    }
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < N; ++i) {
      out += row[i];
      out.append(width[i] + 2 - row[i].size(), ' ');
    }
    out += row.back() + '\n';
  }
  return out;
}

}  // namespace sbx::cli
