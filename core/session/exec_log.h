// Exec_log: what one exec of a session has written, kept in two files of bounded size.
//
// On disk: "ID.log" is the newer file and "ID.log.1" the older one. Each has a header (kLogHeader
// bytes, little-endian: magic "sbxlog\r\n", u32 format, u32 exec id, u64 number of the file counted
// from 0, u64 bytes of standard output and u64 of standard error that came before the file) and
// records (u64 wall time in ns, u8 kind, u32 length, bytes). What the program wrote is kept as it
// was, so that any bytes survive. A record that is not whole, after a crash, ends the file.
//
// One process writes, any number read at the same time without a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

namespace sbx::session {

enum class Stream : std::uint8_t { kOut = 1, kErr = 2 };
std::string_view name(Stream stream);  // "out", "err"

/// Kinds of records as they stand in the file; the first two are the streams.
enum class LogKind : std::uint8_t {
  kOut = 1,
  kErr = 2,
  kDropped = 3,  ///< u64 and u64: bytes of each stream that could not be written (disk full)
  kEnd = 4,      ///< nothing follows: the exec has ended
};

inline constexpr std::uint32_t kLogFormat = 1;
inline constexpr std::string_view kLogMagic = "sbxlog\r\n";
inline constexpr std::size_t kLogHeader = 40;
inline constexpr std::size_t kLogRecordHeader = 13;
/// Longest content of a record; longer pieces are cut into several.
inline constexpr std::size_t kLongestLogRecord = std::size_t{1} << 20U;

/// Names of the files of an exec: "7.log", "7.log.1".
std::string log_name(std::uint32_t exec);
std::string older_log_name(std::uint32_t exec);

/// A number of bytes for each stream.
struct StreamBytes {
  std::uint64_t out = 0;
  std::uint64_t err = 0;

  std::uint64_t& of(Stream stream) { return stream == Stream::kOut ? out : err; }
  std::uint64_t sum() const { return out + err; }
};

struct LogCaps {
  Bytes file{8UL * 1024 * 1024};  ///< of each of the two files, at least kLeastLogFile
};
inline constexpr Bytes kLeastLogFile{4096};

/// Counts since the exec began, of both streams together.
struct LogTotals {
  std::uint64_t written = 0;  ///< bytes handed in
  std::uint64_t dropped = 0;  ///< of these, not kept any more: rotated away, or no space left
  std::uint64_t refused = 0;  ///< of the dropped, those that could not be written
};

/// The writer. Never waits for a reader; a write goes to the page cache and is not synced.
class ExecLog {
 public:
  /// Makes "ID.log" in `dirfd` (mode 0600) and keeps a descriptor of its own of the directory.
  /// kExists when there is one already: an id is used once.
  static Result<ExecLog> create(int dirfd, std::uint32_t exec, LogCaps caps = {});

  /// Appends one piece with the time at which it was read. One writev(2), plus a rename and an open
  /// when the file is full. What cannot be written is dropped, counted, and noted in the log as
  /// soon as there is space again. An error only for the first of a row of failures: to be logged,
  /// not to be acted on.
  Status append(Stream stream, std::string_view bytes, std::int64_t realtime_ns);

  /// Says that nothing follows. Later appends are refused and counted.
  Status end(std::int64_t realtime_ns);

  /// Writes through to the disk. Blocks.
  Status sync();

  LogTotals totals() const;

 private:
  ExecLog() = default;

  Status put(LogKind kind, std::string_view bytes, std::int64_t realtime_ns);
  Status put_note(std::int64_t realtime_ns);
  Status rotate();
  Status open_file();
  Status write_record(LogKind kind, std::string_view bytes, std::int64_t realtime_ns);
  std::size_t longest_piece() const;

  UniqueFd dir_;
  UniqueFd file_;  // invalid: a rotation could not make the new one yet
  std::uint32_t exec_ = 0;
  std::uint64_t cap_ = 0;
  std::uint64_t number_ = 0;  // of the file
  std::uint64_t size_ = 0;    // of the file: where the next record goes
  bool is_torn_ = false;      // bytes of a failed write may stand behind size_
  bool has_ended_ = false;
  bool is_failing_ = false;
  StreamBytes seen_;     // handed in
  StreamBytes unnoted_;  // refused, and not in a kDropped record yet
  std::uint64_t refused_ = 0;
  std::uint64_t kept_here_ = 0;   // content bytes in the newer file
  std::uint64_t kept_older_ = 0;  // and in the older one
};

}  // namespace sbx::session
