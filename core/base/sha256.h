// Sha256: the digest of a stream of bytes (FIPS 180-4), for manifests and content names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sbx {

class Sha256 {
 public:
  Sha256();

  void update(std::span<const std::byte> data);
  void update(std::string_view data);

  /// Ends the message: 64 lower-case hex digits. The object is then as new.
  std::string hex();
  /// The same as 32 bytes.
  std::array<std::byte, 32> digest();

 private:
  void reset();
  void block(const std::byte* data);

  std::array<std::uint32_t, 8> state_{};
  std::array<std::byte, 64> pending_{};
  std::uint64_t total_ = 0;  // bytes
};

}  // namespace sbx
