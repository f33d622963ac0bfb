// Log_json: see log_json.h.
#include "core/session/log_json.h"

#include <utility>

#include "core/base/clock.h"
#include "core/base/text.h"

#include <nlohmann/json.hpp>

namespace sbx::session {
namespace {

using Json = nlohmann::ordered_json;

/// Length of the end of `bytes` that may be the beginning of a character (RFC 3629), 0 to 3.
std::size_t unfinished(std::string_view bytes) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t length = 1; length < kLongest && length <= bytes.size(); ++length) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - length]);
    if ((byte & 0xC0U) == 0x80U) continue;  // in the middle of one
    const std::size_t whole = byte >= 0xF0 && byte < 0xF5   ? 4
                              : byte >= 0xE0 && byte < 0xF0 ? 3
                              : byte >= 0xC2 && byte < 0xE0 ? 2
                                                            : 1;
    return whole > length ? length : 0;
  }
  return 0;
}

}  // namespace

std::string LogJson::line(Stream stream, std::int64_t time_ns, std::string_view bytes) const {
  Json json{{"time", format_rfc3339(time_ns)}, {"exec", exec_}, {"stream", name(stream)}};
  if (text::is_utf8(bytes)) {
    json["text"] = std::string(bytes);
  } else {
    json["base64"] = text::base64(bytes);
  }
  return json.dump() + '\n';
}

std::string LogJson::flush(Stream stream) {
  const Waiting rest = std::exchange(waiting(stream), {});
  return rest.bytes.empty() ? std::string() : line(stream, rest.time_ns, rest.bytes);
}

std::string LogJson::add(const LogRecord& record) {
  if (record.kind == LogKind::kEnd) return finish();
  if (record.kind == LogKind::kDropped) {
    const Json json{{"exec", exec_},
                    {"stream", "dropped"},
                    {"out_bytes", record.dropped.out},
                    {"err_bytes", record.dropped.err}};
    return finish() + json.dump() + '\n';
  }
  const Stream stream = record.kind == LogKind::kOut ? Stream::kOut : Stream::kErr;
  Waiting& rest = waiting(stream);
  const std::int64_t time_ns = rest.bytes.empty() ? record.time_ns : rest.time_ns;
  std::string bytes = std::exchange(rest.bytes, {});
  bytes += record.bytes;
  const std::size_t kept = unfinished(bytes);
  rest.bytes = bytes.substr(bytes.size() - kept);
  rest.time_ns = kept == bytes.size() ? time_ns : record.time_ns;
  bytes.resize(bytes.size() - kept);
  return bytes.empty() ? std::string() : line(stream, time_ns, bytes);
}

std::string LogJson::finish() {
  return flush(Stream::kOut) + flush(Stream::kErr);
}

}  // namespace sbx::session
