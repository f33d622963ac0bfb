// Event_log: what happened to a session, one JSON object a line, for people, programs and audits.
//
// "events.jsonl" is the newer file, "events.jsonl.1" the older one; both together are bounded. A
// line is {"time":"2026-01-31T09:30:00.125Z","event":"started",...}. Any process that acts on the
// session appends: each line is one write(2) with O_APPEND, and who rotates holds flock(2) on the
// file. A line that a crash tore is ended by the next writer and passed over by readers.
//
// What a program writes or is given (output, values of variables) is no field of an event.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

namespace sbx::session {

inline constexpr std::string_view kEventLog = "events.jsonl";
inline constexpr std::string_view kOlderEventLog = "events.jsonl.1";
/// Longest line that is read or written, its end included.
inline constexpr std::size_t kLongestEventLine = std::size_t{64} << 10U;

enum class EventKind : std::uint8_t {
  kCreated,
  kStarted,
  kExecStarted,
  kExecExited,
  kExecFailed,
  kPaused,
  kResumed,
  kStopped,
  kCheckpoint,
  kRestored,
  kForked,
  kSquashed,
  kServiceStarted,
  kServiceExited,
  kServiceFailed,
  kLimit,
  kCopied,
  kApplied,
  kCrashed,
};
/// The word in the line, "exec_started".
std::string_view name(EventKind kind);

/// One member of the object beside time and event. Texts may be any bytes: what is no UTF-8 is
/// replaced by U+FFFD, and what is longer than 4 KiB is cut.
struct EventField {
  std::string_view name;  // [a-z_]
  std::variant<std::string, std::int64_t, std::uint64_t, double, bool> value;
};

class EventLog {
 public:
  /// For the session whose directory is `dirfd`; opens nothing yet. `cap` is of each of the files.
  static Result<EventLog> open(int dirfd, Bytes cap = Bytes{1UL << 20U});

  /// Appends one line. Does not wait for readers and not for a writer that hangs. An error (full
  /// disk) concerns this line only: the caller logs it and goes on.
  Status append(EventKind kind,
                const std::vector<EventField>& fields = {},
                std::optional<std::int64_t> realtime_ns = {});

 private:
  EventLog() = default;

  Status open_file();
  Status rotate();
  Result<bool> is_current() const;

  UniqueFd dir_;
  UniqueFd file_;
  std::uint64_t cap_ = 0;
};

/// The line for an event, its end included; never longer than kLongestEventLine.
std::string event_line(EventKind kind,
                       const std::vector<EventField>& fields,
                       std::int64_t realtime_ns);

struct EventLine {
  std::int64_t time_ns = 0;
  std::string event;  // its word; may be one that this version does not know
  std::string text;   // the JSON object as it stands in the file, without its end
};

/// An event from its line (without its end); nullopt when it is none.
std::optional<EventLine> parse_event(std::string_view line);

/// Reads events, the oldest first, also while others append and rotate. Waits for nothing.
class EventLogReader {
 public:
  static Result<EventLogReader> open(int dirfd);

  /// The next event; nothing when there is none, or none yet. Torn lines are passed over.
  Result<std::optional<EventLine>> next();

  /// A descriptor of the file that is being read, for a watch; -1: none yet.
  int fd() const { return file_.get(); }

 private:
  EventLogReader() = default;

  Result<bool> open_named(std::string_view name);
  Result<bool> go_on();
  /// The next whole line of file_, without its end.
  Result<std::optional<std::string>> take_line();
  bool is_current() const;

  UniqueFd dir_;
  UniqueFd file_;
  std::string buffer_;
  bool is_overlong_ = false;  // in a line that is too long: dropped up to its end
};

}  // namespace sbx::session
