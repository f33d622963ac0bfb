// Sha256: the digest of a stream of bytes (FIPS 180-4), for manifests and content names.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct sha256_ctx;  // nettle's; its header stays in one source file

namespace sbx {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&& other) noexcept;
  Sha256& operator=(Sha256&& other) noexcept;
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  /// Adds bytes to the message.
  void update(std::span<const std::byte> data);
  void update(std::string_view data);

  /// Ends the message; the object is then as new.
  std::array<std::byte, 32> digest();
  /// The same as 64 lower-case hex digits.
  std::string hex();

 private:
  std::unique_ptr<sha256_ctx> ctx_;
};

}  // namespace sbx
