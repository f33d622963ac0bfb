// Byte ring: see byte_ring.h.
#include "core/image/byte_ring.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/sys.h"

namespace sbx::image {

namespace {

constexpr std::size_t kMemory = ByteRing::kSlot * ByteRing::kSlots;

Error peer_gone() {
  return sys_error("the process at the other end of the stream is gone", EPIPE);
}

}  // namespace

bool is_peer_gone(const Error& error) {
  return error.sys_errno() == EPIPE;
}

Result<ByteRing> ByteRing::create() {
  ByteRing ring;
  SBX_ASSIGN(sys::Pipe filled, sys::pipe());
  SBX_ASSIGN(sys::Pipe free, sys::pipe());
  void* memory =
      ::mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return sys_error("map memory of a stream");
  ring.memory_ = static_cast<std::byte*>(memory);
  ring.filled_r_ = std::move(filled.r);
  ring.filled_w_ = std::move(filled.w);
  ring.free_r_ = std::move(free.r);
  ring.free_w_ = std::move(free.w);
  return ring;
}

ByteRing::~ByteRing() {
  if (memory_ != nullptr) ::munmap(memory_, kMemory);
}

ByteRing::ByteRing(ByteRing&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      filled_r_(std::move(other.filled_r_)),
      filled_w_(std::move(other.filled_w_)),
      free_r_(std::move(other.free_r_)),
      free_w_(std::move(other.free_w_)),
      at_(other.at_),
      credit_(other.credit_),
      fill_(other.fill_),
      has_room_(other.has_room_),
      is_reading_(other.is_reading_),
      is_ended_(other.is_ended_) {}

void ByteRing::be_producer() {
  filled_r_.reset();
  free_w_.reset();
}

void ByteRing::be_consumer() {
  filled_w_.reset();
  free_r_.reset();
}

void ByteRing::be_nobody() {
  be_producer();
  be_consumer();
}

Result<std::span<std::byte>> ByteRing::room() {
  if (!has_room_ && credit_ == 0) {
    char freed[kSlots];
    SBX_ASSIGN(const std::size_t count, sys::read(free_r_.get(), freed, sizeof freed));
    if (count == 0) return peer_gone();
    credit_ = count;
  }
  has_room_ = true;
  return std::span(memory_ + at_ * kSlot, kSlot);
}

Status ByteRing::commit(std::size_t size) {
  const auto word = static_cast<std::uint32_t>(size);
  SBX_TRY(sys::write_all(filled_w_.get(), {reinterpret_cast<const char*>(&word), sizeof word}));
  at_ = (at_ + 1) % kSlots;
  credit_ -= 1;
  has_room_ = false;
  fill_ = 0;
  return {};
}

Status ByteRing::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    SBX_ASSIGN(const std::span<std::byte> slot, room());
    const std::size_t size = std::min(bytes.size(), slot.size() - fill_);
    std::memcpy(slot.data() + fill_, bytes.data(), size);
    fill_ += size;
    bytes = bytes.subspan(size);
    if (fill_ == slot.size()) SBX_TRY(commit(fill_));
  }
  return {};
}

Status ByteRing::end() {
  if (fill_ > 0) SBX_TRY(commit(fill_));
  constexpr std::uint32_t kEnd = 0;
  return sys::write_all(filled_w_.get(), {reinterpret_cast<const char*>(&kEnd), sizeof kEnd});
}

Result<std::span<const std::byte>> ByteRing::next() {
  if (is_ended_) return std::span<const std::byte>();
  if (is_reading_) {
    is_reading_ = false;
    // A producer that has said all needs no room any more; one that died is seen below.
    const Status freed = sys::write_all(free_w_.get(), "+");
    if (!freed.ok() && !is_peer_gone(freed.error())) return freed.error();
  }
  std::uint32_t size = 0;
  std::size_t got = 0;
  while (got < sizeof size) {
    SBX_ASSIGN(const std::size_t n,
               sys::read(filled_r_.get(), reinterpret_cast<char*>(&size) + got, sizeof size - got));
    if (n == 0) return peer_gone();
    got += n;
  }
  if (size > kSlot) return Error(Errc::kProtocol, "a slot of a stream has too many bytes");
  if (size == 0) {
    is_ended_ = true;
    return std::span<const std::byte>();
  }
  const std::span<const std::byte> bytes(memory_ + at_ * kSlot, size);
  at_ = (at_ + 1) % kSlots;
  is_reading_ = true;
  return bytes;
}

}  // namespace sbx::image
