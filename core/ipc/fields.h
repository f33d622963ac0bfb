// Fields: a named set of texts, numbers, flags and lists, and its form on a wire.
//
// A frame is a 4-byte length (little-endian) and a CBOR map (RFC 8949); texts are byte strings of
// any bytes. Used by the control protocols: between commands and a session's supervisor, and
// between a virtual machine's guest and its host, where whoever reads must expect anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/result.h"

namespace sbx::ipc {

/// What a frame begins with: the length of the rest.
inline constexpr std::size_t kFrameLengthSize = 4;
/// Longest frame: an argv of the kernel's most (6 MiB) fits.
inline constexpr std::size_t kLongestFrame = std::size_t{16} << 20;

/// The fields of one frame by name. What is missing or of another type reads as the fallback.
class Fields {
 public:
  using List = std::vector<std::string>;
  using Value = std::variant<std::string, std::int64_t, bool, List>;

  Fields() = default;
  /// A request or an answer of this kind.
  explicit Fields(std::string_view op) { set("op", std::string(op)); }

  Fields& set(std::string_view key, Value value);
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::string op() const { return text("op"); }
  std::string text(std::string_view key) const;
  std::int64_t number(std::string_view key, std::int64_t fallback = 0) const;
  bool flag(std::string_view key) const;
  List list(std::string_view key) const;
  const std::map<std::string, Value, std::less<>>& all() const { return values_; }

 private:
  const Value* find(std::string_view key) const;
  std::map<std::string, Value, std::less<>> values_;
};

/// An answer that says `error`.
Fields error_fields(const Error& error);
/// The error that an answer says; nullopt when it says none.
std::optional<Error> error_of(const Fields& fields);

/// The whole frame.
std::string encode_frame(const Fields& fields);
/// The map of a frame, without its length. kProtocol for anything else.
Result<Fields> decode_frame(std::string_view body);

/// The length that the first kFrameLengthSize bytes say.
std::uint32_t frame_length(std::string_view bytes);

}  // namespace sbx::ipc
