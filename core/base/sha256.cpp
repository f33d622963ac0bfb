// Sha256: nettle's implementation (SHA-NI where the processor has it); libarchive needs it anyway.
#include "core/base/sha256.h"

#include "core/base/text.h"

#include <nettle/sha2.h>

namespace sbx {

Sha256::Sha256() : ctx_(std::make_unique<sha256_ctx>()) {
  sha256_init(ctx_.get());
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&& other) noexcept = default;
Sha256& Sha256::operator=(Sha256&& other) noexcept = default;

void Sha256::update(std::span<const std::byte> data) {
  sha256_update(ctx_.get(), data.size(), reinterpret_cast<const std::uint8_t*>(data.data()));
}

void Sha256::update(std::string_view data) {
  update(std::as_bytes(std::span(data.data(), data.size())));
}

std::array<std::byte, 32> Sha256::digest() {
  std::array<std::byte, SHA256_DIGEST_SIZE> out{};
  // Also starts a new message.
  sha256_digest(ctx_.get(), out.size(), reinterpret_cast<std::uint8_t*>(out.data()));
  return out;
}

std::string Sha256::hex() {
  return text::hex(digest());
}

}  // namespace sbx
