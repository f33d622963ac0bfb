// Codec: messages to bytes and back; pure, bounded, fuzzed.
//
// A frame is an 8-byte header (u32 body length, u16 type = index in Message, u16 zero) and the
// body, all little-endian; strings are u32 length + bytes, lists u32 count + items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ipc/message.h"

namespace sbx::ipc {

inline constexpr size_t kHeaderSize = 8;
/// Longest body the host sends (ARG_MAX is 2 MiB by default, 6 MiB at most) ...
inline constexpr size_t kMaxBodyToAgent = size_t{16} << 20;
/// ... and the longest it accepts from inside.
inline constexpr size_t kMaxBodyFromAgent = size_t{64} << 10;
/// Most items of one list (argv, env).
inline constexpr uint32_t kMaxItems = 1U << 20;

struct Header {
  uint32_t length = 0;
  uint16_t type = 0;
};

/// Appends little-endian values to a string.
class Writer {
 public:
  void u8(uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void u16(uint16_t value) { number(value, 2); }
  void u32(uint32_t value) { number(value, 4); }
  void u64(uint64_t value) { number(value, 8); }
  void i32(int32_t value) { u32(static_cast<uint32_t>(value)); }
  void str(std::string_view value);
  void list(const std::vector<std::string>& items);
  void reserve(size_t size) { out_.reserve(size); }
  std::string take() { return std::move(out_); }

 private:
  void number(uint64_t value, int bytes);
  std::string out_;
};

/// Reads what Writer wrote. The first read past the end makes every later one fail as well;
/// check ok() once at the end. Never allocates more than the input holds.
class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  int32_t i32() { return static_cast<int32_t>(u32()); }
  std::string str();
  std::vector<std::string> list();
  /// True when nothing failed and everything was read.
  bool done() const { return ok_ && in_.empty(); }
  bool ok() const { return ok_; }
  /// For a caller that found a value out of range.
  void fail() { ok_ = false; }

 private:
  uint64_t number(size_t bytes);
  std::string_view in_;
  bool ok_ = true;
};

/// The body of `message` (without header).
std::string encode_body(const Message& message);
/// The header of a message whose body is `length` bytes long.
std::string encode_header(const Message& message, size_t length);
/// Header and body.
std::string encode(const Message& message);
/// kProtocol when the length is above `max_body` or the type unknown.
Result<Header> decode_header(std::string_view bytes, size_t max_body);
/// kProtocol when the body is not exactly one message of that type.
Result<Message> decode_body(uint16_t type, std::string_view body);

}  // namespace sbx::ipc
