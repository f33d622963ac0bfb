// Fields: see fields.h.
#include "core/ipc/fields.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

namespace sbx::ipc {

namespace {

using Json = nlohmann::json;

constexpr unsigned kBitsPerByte = 8;

// Major types of RFC 8949.
constexpr unsigned kUnsigned = 0;
constexpr unsigned kNegative = 1;
constexpr unsigned kText = 3;
constexpr unsigned kArray = 4;
constexpr unsigned kMap = 5;
constexpr unsigned kSimple = 7;
constexpr std::uint64_t kFalse = 20;
constexpr std::uint64_t kTrue = 21;

struct Head {
  unsigned major = 0;
  std::uint64_t argument = 0;
};

Error malformed() {
  return Error(Errc::kProtocol, "a frame that is no map of texts, numbers, flags and lists");
}

/// Reads what encode_frame() writes and nothing else, without recursion: what is nested deeper than
/// a list in the map is refused, so no input can exhaust the stack.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}

  Result<Fields> map() {
    SBX_ASSIGN(const Head top, head());
    if (top.major != kMap) return malformed();
    Fields fields;
    for (std::uint64_t i = 0; i < top.argument; ++i) {
      SBX_ASSIGN(const Head key_head, head());
      SBX_ASSIGN(const std::string key, text(key_head));
      SBX_ASSIGN(Fields::Value held, value());
      fields.set(key, std::move(held));
    }
    if (!rest_.empty()) return malformed();
    return fields;
  }

 private:
  Result<Head> head() {
    constexpr unsigned kMajorShift = 5;
    constexpr unsigned kInfoMask = 31;
    constexpr unsigned kFirstLong = 24;  // the argument is in 1, 2, 4 or 8 further bytes
    constexpr unsigned kLastLong = 27;
    if (rest_.empty()) return malformed();
    const auto first = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    const unsigned info = first & kInfoMask;
    Head out{static_cast<unsigned>(first) >> kMajorShift, info};
    if (info < kFirstLong) return out;
    if (info > kLastLong) return malformed();
    const std::size_t size = std::size_t{1} << (info - kFirstLong);
    if (rest_.size() < size) return malformed();
    out.argument = 0;
    for (std::size_t i = 0; i < size; ++i) {
      out.argument = out.argument << kBitsPerByte | static_cast<unsigned char>(rest_[i]);
    }
    rest_.remove_prefix(size);
    return out;
  }

  Result<std::string> text(const Head& head) {
    if (head.major != kText || head.argument > rest_.size()) return malformed();
    std::string out(rest_.substr(0, head.argument));
    rest_.remove_prefix(head.argument);
    return out;
  }

  Result<Fields::Value> value() {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    SBX_ASSIGN(const Head first, head());
    const bool is_number = first.major == kUnsigned || first.major == kNegative;
    if (is_number && first.argument <= kMost) {
      const auto number = static_cast<std::int64_t>(first.argument);
      return Fields::Value(first.major == kUnsigned ? number : -1 - number);
    }
    if (first.major == kSimple && (first.argument == kTrue || first.argument == kFalse)) {
      return Fields::Value(first.argument == kTrue);
    }
    if (first.major == kArray) return list(first.argument);
    SBX_ASSIGN(std::string held, text(first));
    return Fields::Value(std::move(held));
  }

  Result<Fields::Value> list(std::uint64_t count) {
    Fields::List out;
    for (std::uint64_t i = 0; i < count; ++i) {
      SBX_ASSIGN(const Head item, head());
      out.emplace_back();
      SBX_ASSIGN(out.back(), text(item));
    }
    return Fields::Value(std::move(out));
  }

  std::string_view rest_;
};

}  // namespace

Fields& Fields::set(std::string_view key, Value value) {
  values_.insert_or_assign(std::string(key), std::move(value));
  return *this;
}

const Fields::Value* Fields::find(std::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

std::string Fields::text(std::string_view key) const {
  const Value* const value = find(key);
  const auto* const held = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return held == nullptr ? std::string() : *held;
}

std::int64_t Fields::number(std::string_view key, std::int64_t fallback) const {
  const Value* const value = find(key);
  const auto* const held = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return held == nullptr ? fallback : *held;
}

bool Fields::flag(std::string_view key) const {
  const Value* const value = find(key);
  const auto* const held = value == nullptr ? nullptr : std::get_if<bool>(value);
  return held != nullptr && *held;
}

Fields::List Fields::list(std::string_view key) const {
  const Value* const value = find(key);
  const auto* const held = value == nullptr ? nullptr : std::get_if<List>(value);
  return held == nullptr ? List() : *held;
}

Fields error_fields(const Error& error) {
  Fields fields("error");
  fields.set("code", static_cast<std::int64_t>(error.code()));
  fields.set("message", error.message());
  fields.set("hint", error.hint());
  return fields;
}

std::optional<Error> error_of(const Fields& fields) {
  if (fields.op() != "error") return std::nullopt;
  const auto most = static_cast<std::int64_t>(Errc::kInternal);
  const std::int64_t code = std::clamp<std::int64_t>(fields.number("code", most), 0, most);
  return Error(static_cast<Errc>(code), fields.text("message")).with_hint(fields.text("hint"));
}

std::string encode_frame(const Fields& fields) {
  Json json = Json::object();
  for (const auto& [key, value] : fields.all()) {
    std::visit([&, &name = key](const auto& held) { json[name] = held; }, value);
  }
  std::string out(kFrameLengthSize, '\0');
  Json::to_cbor(json, nlohmann::detail::output_adapter<char>(out));
  const std::size_t length = out.size() - kFrameLengthSize;
  for (std::size_t i = 0; i < kFrameLengthSize; ++i) {
    out[i] = static_cast<char>(length >> (kBitsPerByte * i) & 0xffU);
  }
  return out;
}

Result<Fields> decode_frame(std::string_view body) {
  return Reader(body).map();
}

std::uint32_t frame_length(std::string_view bytes) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kFrameLengthSize; ++i) {
    length |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (kBitsPerByte * i);
  }
  return length;
}

}  // namespace sbx::ipc
