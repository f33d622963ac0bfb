// Exec_log_reader: reads what Exec_log wrote, also while it is being written and rotated.
//
// The files are treated as hostile: everything is bounded, and what is no record ends its file. It
// waits for nothing; who wants to follow asks again when something has changed (log_watch.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/session/exec_log.h"

namespace sbx::session {

struct LogRecord {
  LogKind kind = LogKind::kOut;
  std::int64_t time_ns = 0;  ///< wall time; for kDropped that a rotation caused: of nothing, 0
  std::string_view bytes;    ///< kOut and kErr; good until the next call
  StreamBytes dropped;       ///< kDropped: not kept at this place
};

/// What to make of an exec without a log: it has written nothing, or nothing yet.
enum class Absent : std::uint8_t { kRefuse, kWait };

class ExecLogReader {
 public:
  /// From the oldest record that is kept. kNotFound when the exec has no log (with kWait it is read
  /// when it comes), kUnsupported when a newer sbx wrote it, kProtocol when it is none.
  static Result<ExecLogReader> open(int dirfd, std::uint32_t exec, Absent absent = Absent::kRefuse);

  /// Records before this wall time are passed over from now on.
  void since(std::int64_t realtime_ns) { since_ns_ = realtime_ns; }

  /// The next record, in the order of writing; nothing when there is none, or none yet: a later
  /// call goes on from here, also in a newer file. After kEnd never anything again. What was
  /// rotated away before it could be read is told as kDropped, to the byte.
  Result<std::optional<LogRecord>> next();

  /// A descriptor of the file that is being read, for a watch. It changes when next() goes on to a
  /// newer file; -1 when there is none.
  int fd() const { return file_.get(); }

 private:
  struct Header;

  ExecLogReader() = default;

  static Result<Header> read_header(int fd, std::uint32_t exec);
  /// Opens the oldest file whose number is at least `least`. False: there is none.
  Result<bool> open_from(std::uint64_t least);
  /// The record at offset_, which stays there; nothing when it is not whole.
  Result<std::optional<LogRecord>> peek();
  void pass(const LogRecord& record);
  LogRecord take_missing();
  /// Makes `size` bytes from offset_ on stand in the buffer; false when the file has fewer.
  Result<bool> fill(std::size_t size);
  bool is_current() const;

  UniqueFd dir_;
  UniqueFd file_;
  std::uint32_t exec_ = 0;
  std::uint64_t number_ = 0;  // of file_
  std::uint64_t offset_ = 0;  // of the next record in file_
  std::string buffer_;        // bytes from buffer_at_ on
  std::uint64_t buffer_at_ = 0;
  StreamBytes position_;  // told so far, what was dropped included
  StreamBytes missing_;   // found missing, to be told next
  std::int64_t since_ns_ = 0;
  bool has_ended_ = false;
};

}  // namespace sbx::session
