// Execution: one program in a running session, seen by its supervisor: its streams, its log, its
// time limit, the client that waits for it, its end.
//
// Done means: the main process was reaped, and what its pipes held at that moment has been
// delivered. Processes that it left behind go on; what they still write goes to the log.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/session/exec_log.h"
#include "core/session/exec_record.h"
#include "core/session/wire.h"
#include "core/supervise/outcome.h"
#include "core/supervise/relay.h"
#include "core/supervise/supervisor.h"

namespace sbx::session {

/// What is asked for.
struct ExecRequest {
  backend::ExecSpec spec;
  bool want_stdin = false;
  bool is_detached = false;  ///< nobody waits; it outlives its client
  std::optional<Millis> timeout;
  std::optional<Bytes> output_limit;  ///< passed on to the client, of each stream
  UniqueFd out;                       ///< the client's; invalid when detached
  UniqueFd err;
  std::string service;  ///< its name, when it is one
};

/// What it needs of its surroundings.
struct ExecContext {
  Loop& loop;
  supervise::Supervisor& supervisor;
  int execs_dir;  ///< sessions/NAME/execs
  /// The main process has ended and all is delivered. Not called from within start().
  std::function<void(std::uint32_t id)> on_end;
  /// It is over altogether: nobody holds its streams any more. It may be destroyed now.
  std::function<void(std::uint32_t id)> on_gone;
};

class Execution {
 public:
  Execution(ExecContext context, std::uint32_t id, ExecRequest request);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// Starts it. A terminal's streams, or failure, come later. `on_stdin` gets the descriptor that
  /// the client writes the program's input to, at once or later; only with want_stdin.
  Status start(std::function<void(UniqueFd)> on_stdin);

  std::uint32_t id() const { return record_.id; }
  const ExecRecord& record() const { return record_; }
  bool has_ended() const { return record_.state == ExecState::kEnded; }
  /// The main process has ended; what its pipes hold may be on its way to the client still.
  bool is_main_over() const { return is_main_over_; }
  bool is_detached() const { return request_.is_detached; }
  const std::string& service() const { return request_.service; }
  /// Valid once has_ended().
  const supervise::Outcome& outcome() const { return outcome_; }

  Status signal(int signo);
  Status resize(backend::TermSize size);
  /// The client has gone: an attached program is hung up, after a grace killed.
  void hang_up();
  /// The client was interrupted by this signal, which is the cause from now on.
  void interrupted(int signo);
  /// The sandbox has ended: so has the program.
  void sandbox_ended(const Error& error);

  /// Its time limit stands still, and goes on.
  void pause();
  void resume();

 private:
  void on_streams(backend::ExecStreams streams);
  std::unique_ptr<supervise::Relay> relay(UniqueFd source, const UniqueFd& sink, bool is_err);
  void keep(Stream stream, std::span<const char> data);
  void on_timeout();
  void ask_to_end(int signo);
  void main_ended();
  void delivered(bool is_err);
  void finish();
  void look_if_gone();
  void lost_output(const std::unique_ptr<supervise::Relay>& relay, std::string_view name);
  void arm_timeout();
  std::uint64_t oom_kills() const;

  ExecContext context_;
  ExecRequest request_;
  ExecRecord record_;
  std::optional<ExecLog> log_;  ///< made with the first byte
  supervise::EndFacts facts_;
  supervise::Outcome outcome_;
  std::uint32_t agent_id_ = 0;
  std::function<void(UniqueFd)> on_stdin_;
  std::unique_ptr<supervise::Relay> out_;
  std::unique_ptr<supervise::Relay> err_;
  bool is_out_due_ = false;  ///< the main process is over, what its pipe held is not delivered yet
  bool is_err_due_ = false;
  bool is_main_over_ = false;
  std::uint64_t oom_kills_before_ = 0;   ///< of the whole session
  std::optional<std::int64_t> left_ms_;  ///< of the time limit, while it stands still
  std::int64_t ends_at_ms_ = 0;          ///< CLOCK_MONOTONIC, while it runs
  Watch timeout_;
  Watch grace_;
  Watch gone_;
};

}  // namespace sbx::session
