// Byte ring: a stream of bytes from one process to another through memory that both share, so that
// the bytes are copied once and both sides work at the same time.
//
// Made before a fork; afterwards each side says which end it is. Two pipes carry who may go on: a
// side that died is seen as an end of file on them, so nobody waits for ever. What the other side
// says is checked: it may be a process that a hostile stream has taken over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::image {

class ByteRing {
 public:
  static Result<ByteRing> create();
  ~ByteRing();
  ByteRing(ByteRing&& other) noexcept;
  ByteRing& operator=(ByteRing&& other) = delete;
  ByteRing(const ByteRing&) = delete;
  ByteRing& operator=(const ByteRing&) = delete;

  /// Closes what belongs to the other end.
  void be_producer();
  void be_consumer();
  /// This process has neither end.
  void be_nobody();

  // --- producer ---

  /// Room for the next bytes (kSlot of them). Blocks while the other side is behind.
  Result<std::span<std::byte>> room();
  /// The first `size` (not 0) bytes of the room are the next ones of the stream. They may still be
  /// read until the next call of room().
  Status commit(std::size_t size);
  /// Copies bytes into the stream; what does not fill a slot waits for more.
  Status write(std::span<const std::byte> bytes);
  /// Says that nothing follows.
  Status end();

  // --- consumer ---

  /// The next bytes, valid until the next call; empty at the end. is_peer_gone() for a stream that
  /// stops without one. Blocks.
  Result<std::span<const std::byte>> next();

  static constexpr std::size_t kSlot = std::size_t{256} << 10U;
  static constexpr std::size_t kSlots = 16;

 private:
  ByteRing() = default;

  std::byte* memory_ = nullptr;
  UniqueFd filled_r_;  // sizes of filled slots, in order
  UniqueFd filled_w_;
  UniqueFd free_r_;  // a byte for each slot that was read
  UniqueFd free_w_;
  std::size_t at_ = 0;           // the slot that is written or read
  std::size_t credit_ = kSlots;  // slots that are free for sure (producer)
  std::size_t fill_ = 0;         // bytes that write() put into the slot
  bool has_room_ = false;
  bool is_reading_ = false;  // the slot before `at_` is still in use (consumer)
  bool is_ended_ = false;
};

/// Whether an error only says that the process at the other end is gone: that one knows why.
bool is_peer_gone(const Error& error);

}  // namespace sbx::image
