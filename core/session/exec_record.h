// Exec record: what is kept of one program of a session, as plain data and JSON:
// sessions/NAME/execs/ID.json. Written by the supervisor without a flush to the disk: it is
// history, no state. The output is in ID.log (exec_log.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::session {

enum class ExecState : std::uint8_t {
  kRunning,
  kEnded,
  kLost,  ///< the supervisor died before it knew the end; never written
};

struct ExecRecord {
  std::uint32_t id = 0;
  ExecState state = ExecState::kRunning;
  std::vector<std::string> argv;
  std::string service;  ///< name of the service that it is; else empty
  bool is_detached = false;
  bool has_terminal = false;
  std::int64_t started_ns = 0;  ///< wall time
  std::int64_t ended_ns = 0;
  std::string cause;  ///< as in the result of `run`, once it has ended
  int exit_status = 0;
  std::optional<int> exit_code;
  std::string signal;  ///< "KILL"; empty: none
  std::string error;   ///< why it could not be started
  std::uint64_t out_bytes = 0;
  std::uint64_t err_bytes = 0;
  bool truncated = false;  ///< the client did not get everything
};

/// One line of JSON; argv that is no UTF-8 is escaped.
std::string to_json(const ExecRecord& record);
Result<ExecRecord> parse_exec_record(std::string_view text);

/// sessions/NAME/execs; `session_dir` is sessions/NAME.
Result<UniqueFd> open_execs(int session_dir);

/// "ID.json" in `dir`, replaced in place. Best effort.
void keep_exec_record(int dir, const ExecRecord& record);
/// Those in `dir`, by id. Unreadable ones are left out.
Result<std::vector<ExecRecord>> read_exec_records(int dir);
/// The one with that id; kNotFound.
Result<ExecRecord> read_exec_record(int dir, std::uint32_t id);
/// Removes the oldest ended ones beyond `most`, with their logs. Those of `running` stay.
void prune_exec_records(int dir, std::size_t most, const std::vector<std::uint32_t>& running);

}  // namespace sbx::session
