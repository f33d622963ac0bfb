// Field codec: see field_codec.h.
#include "core/image/field_codec.h"

#include <cerrno>
#include <utility>

#include "core/base/text.h"
#include "core/base/units.h"

namespace sbx::image {

namespace {

constexpr std::uint64_t kMostErrno = 4095;

Error malformed() {
  return Error(Errc::kProtocol, "malformed report of an import");
}

}  // namespace

void FieldWriter::add(std::string_view bytes) {
  text_ += text::cat(bytes.size(), ':');
  text_.append(bytes);
}

void FieldWriter::add(std::uint64_t number) {
  text_ += text::cat(number, ':');
}

void FieldWriter::add(const Status& status) {
  add(std::uint64_t{status.ok() ? 0U : 1U});
  if (status.ok()) return;
  const Error& error = status.error();
  add(static_cast<std::uint64_t>(error.code()));
  add(static_cast<std::uint64_t>(error.sys_errno()));
  add(std::string_view(error.message()));
  add(std::string_view(error.hint()));
}

Result<std::uint64_t> FieldReader::number() {
  const std::size_t colon = text_.find(':');
  if (colon == std::string_view::npos || colon > 20) return malformed();
  auto value = parse_count(text_.substr(0, colon));
  if (!value.ok()) return malformed();
  text_.remove_prefix(colon + 1);
  return value;
}

Result<std::uint64_t> FieldReader::number(std::uint64_t most) {
  SBX_ASSIGN(const std::uint64_t value, number());
  if (value > most) return malformed();
  return value;
}

Result<std::uint64_t> FieldReader::count() {
  return number(text_.size());
}

Result<std::string_view> FieldReader::bytes() {
  SBX_ASSIGN(const std::uint64_t size, number());
  if (size > text_.size()) return malformed();
  const std::string_view field = text_.substr(0, static_cast<std::size_t>(size));
  text_.remove_prefix(field.size());
  return field;
}

Status FieldReader::read(Status& status) {
  SBX_ASSIGN(const std::uint64_t has_error, number(1));
  status = Status();
  if (has_error == 0) return {};
  SBX_ASSIGN(const std::uint64_t code, number(static_cast<std::uint64_t>(Errc::kInternal)));
  SBX_ASSIGN(const std::uint64_t err, number(kMostErrno));
  SBX_ASSIGN(const std::string_view message, bytes());
  SBX_ASSIGN(const std::string_view hint, bytes());
  Error error(static_cast<Errc>(code), std::string(message));
  // The text of the number is in the message already; what callers ask is whether the disk is full.
  if (err == ENOSPC || err == EDQUOT || err == EPIPE) {
    error = sys_error(std::string(message.substr(0, message.rfind(": "))), static_cast<int>(err));
  }
  status = hint.empty() ? std::move(error) : std::move(error).with_hint(std::string(hint));
  return {};
}

Status FieldReader::end() const {
  if (text_.empty()) return {};
  return malformed();
}

}  // namespace sbx::image
