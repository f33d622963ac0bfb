// Log_json: the output of an exec as JSON Lines, for `logs --json`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/session/exec_log_reader.h"

namespace sbx::session {

/// One object a line: {"time":…,"exec":N,"stream":"out","text":…}, with "base64" instead of "text"
/// for bytes that are no UTF-8; {"exec":N,"stream":"dropped","out_bytes":N,"err_bytes":N} for what
/// is not kept. A character that was written in two pieces stays whole: its first bytes wait for
/// the rest.
class LogJson {
 public:
  explicit LogJson(std::uint32_t exec) : exec_(exec) {}

  /// The lines for a record; empty when it has to wait.
  std::string add(const LogRecord& record);
  /// What still waits, when nothing follows any more.
  std::string finish();

 private:
  struct Waiting {
    std::int64_t time_ns = 0;
    std::string bytes;  // the beginning of one character, at most 3 bytes
  };

  std::string line(Stream stream, std::int64_t time_ns, std::string_view bytes) const;
  std::string flush(Stream stream);
  Waiting& waiting(Stream stream) { return waiting_.at(stream == Stream::kOut ? 0 : 1); }

  std::uint32_t exec_;
  std::array<Waiting, 2> waiting_;
};

}  // namespace sbx::session
