// Record: what is kept of one run below the state directory, and its JSON form (format 1).
//
// Output of the program and values of variables are never in it: they may be secrets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/confine/process_identity.h"

namespace sbx::run {

/// Where the artifacts of a run went, and how to know the place again.
struct OutPlace {
  enum class Kind : std::uint8_t {
    kDirectory,  ///< a directory that the run made as a whole
    kArchive,    ///< a file that the run made as a whole
    kShared,     ///< a directory that was there before: it is not sbx's to remove
  };
  Kind kind = Kind::kShared;
  std::string path;           ///< absolute
  std::uint64_t inode = 0;    ///< of what was made
  std::string digest;         ///< kDirectory: SHA-256 of its manifest.json, hex
  std::uint64_t bytes = 0;    ///< kArchive: its size
  std::int64_t mtime_ns = 0;  ///< kArchive
  bool operator==(const OutPlace&) const = default;
};
std::string_view name(OutPlace::Kind kind);

enum class RunState : std::uint8_t {
  kRunning,   ///< as written before the start; whether that still holds: see is_crashed
  kFinished,  ///< however it ended
  kSkipped,   ///< never started: its lock was held
};
std::string_view name(RunState state);

struct RunRecord {
  std::string id;
  std::uint64_t sequence = 0;  ///< orders runs whatever the clock says; part of the file's name
  RunState state = RunState::kRunning;
  std::string lock;                  ///< --lock; empty: none
  std::string series;                ///< what --keep counts together: "lock:NAME" or "out:PATTERN"
  std::vector<std::string> command;  ///< program and arguments, for people
  std::string cwd;
  std::int64_t started_ns = 0;  ///< wall time
  std::int64_t ended_ns = 0;    ///< 0: not yet
  confine::ProcessIdentity process;
  std::optional<OutPlace> out;  ///< set just before it appears
  std::string result;           ///< the result object without output; empty: none yet

  // Taken from `result` when a record is read.
  std::string cause;
  int exit_code = 0;
  std::string message;
  double wall_s = 0;
};

/// A record said to be running whose process is gone: sbx was killed, or the machine stopped.
bool is_crashed(const RunRecord& record);
/// "running", "crashed", "skipped", or how it ended: its cause, "ok" for exit status 0.
std::string status_word(const RunRecord& record);

/// The file's text, one line with its newline. Long commands are cut.
std::string record_text(const RunRecord& record);
/// kProtocol for anything else, kUnsupported for a newer format.
Result<RunRecord> parse_record(std::string_view text);
/// One line for `sbx runs ls --json` (schema 1) without the newline; with `result` when `whole`.
enum class Detail : bool { kLine, kWhole };
std::string record_json(const RunRecord& record, Detail detail);

}  // namespace sbx::run
