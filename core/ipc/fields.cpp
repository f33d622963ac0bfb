// Fields: see fields.h.
#include "core/ipc/fields.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace sbx::ipc {

namespace {

using Json = nlohmann::json;

constexpr unsigned kBitsPerByte = 8;

/// Discarded when it is no CBOR. The library throws for a length that nothing can have, whatever it
/// is told of exceptions.
Json parse_cbor(std::string_view body) {
  try {
    return Json::from_cbor(body, true, false);
  } catch (const Json::exception&) {
    return Json(Json::value_t::discarded);
  }
}

std::optional<Fields::Value> value_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (!json.is_array()) return std::nullopt;
  Fields::List list;
  for (const Json& item : json) {
    if (!item.is_string()) return std::nullopt;
    list.push_back(item.get<std::string>());
  }
  return list;
}

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
  const Json json = parse_cbor(body);
  if (!json.is_object()) return Error(Errc::kProtocol, "a frame that is no map");
  Fields fields;
  for (const auto& [key, value] : json.items()) {
    auto held = value_of(value);
    if (!held.has_value()) return Error(Errc::kProtocol, "a field of an unknown kind");
    fields.set(key, *std::move(held));
  }
  return fields;
}

std::uint32_t frame_length(std::string_view bytes) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kFrameLengthSize; ++i) {
    length |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (kBitsPerByte * i);
  }
  return length;
}

}  // namespace sbx::ipc
