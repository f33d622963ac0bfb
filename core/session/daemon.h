// Daemon: the process that supervises one running session: it owns the sandbox, serves the control
// socket, and ends with the session. One per session, nothing shared.
//
// Theory of operation
//  1. run_daemon() is called in a fork of the command that starts the session, takes the life lock,
//     binds the socket, launches the sandbox, and says how that went on the report pipe.
//  2. Everything then happens on one loop: requests of connections (requests.cpp), programs
//     (execution.h), services, timers. File data is moved by Relays, by the client, or by workers.
//  3. The end comes by a request, SIGTERM, the end of the sandbox, or a timer: programs get SIGTERM
//     and a grace, the sandbox is shut down, the writable layer is flushed, run.json says so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/loop.h"
#include "core/base/unique_fd.h"
#include "core/profile/profile.h"
#include "core/run/program.h"
#include "core/session/event_log.h"
#include "core/session/execution.h"
#include "core/session/idle.h"
#include "core/session/life.h"
#include "core/session/record.h"
#include "core/session/services.h"
#include "core/session/wire.h"
#include "core/supervise/gate.h"
#include "core/supervise/supervisor.h"

namespace sbx::session {

class Peer;

/// All that a supervisor is told.
struct DaemonRequest {
  std::string state_dir;
  Record record;
  profile::Profile profile;
  profile::EnvLookup env;
  std::optional<run::ImageEnvironment> image_env = {};  ///< when the session is made of an image
};

class Daemon {
 public:
  /// What programs get to end by themselves when nobody says otherwise.
  static constexpr Millis kDefaultGrace{5000};

  explicit Daemon(DaemonRequest request);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// Everything up to a sandbox that is set up. Blocks until then.
  Status start();
  /// Serves until the end.
  void serve();
  /// The session is to be removed now that it has ended: nobody used it for session.ttl.
  bool has_expired() const { return has_expired_; }
  /// Sentences for whoever started the session.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // What requests are made of (requests.cpp).
  Loop& loop() { return loop_; }
  supervise::Supervisor& supervisor() { return *supervisor_; }
  const Record& record() const { return request_.record; }
  const profile::Profile& profile() const { return request_.profile; }
  const std::string& state_dir() const { return request_.state_dir; }
  bool is_paused() const { return life_.state == LifeState::kPaused; }
  bool is_ending() const {
    return life_.state == LifeState::kEnding || life_.state == LifeState::kEnded;
  }
  const Life& life() const { return life_; }

  /// Starts a program. `on_stdin` as in Execution::start.
  Result<std::uint32_t> exec(ExecRequest request, std::function<void(UniqueFd)> on_stdin);
  Execution* find(std::uint32_t id);
  /// Called once when that program has ended (with its record), also when it has already.
  /// kNotFound for one that nobody knows.
  Status when_ended(std::uint32_t id, std::function<void(const ExecRecord&)> then);
  /// The environment and directory that programs start with.
  backend::ExecSpec base_spec(bool has_terminal, const std::string& term) const;

  void pause(std::function<void(Status)> then);
  void resume(std::function<void(Status)> then);
  /// Everything stands still as long as anybody holds it, paused or not; each hold is released
  /// once.
  void hold(std::function<void(Status)> then);
  void release(std::function<void(Status)> then);
  /// Ends the session; `reason` for run.json.
  void stop(std::string reason, Millis grace);
  /// Adds to the session's events; a failure goes to the log.
  void note(EventKind kind, const std::vector<EventField>& fields = {});
  /// The session is in use: idle time begins anew.
  void touch();

 private:
  Status take_life();
  Status begin();
  bool has_crashed_before() const;
  Status listen();
  Status launch();
  Status wait_until_ready();
  Status write_run_file(RunState state, const std::string& reason);
  void set_state(LifeState state);
  std::string disk_path() const;
  void flush_files() const;
  void on_accept();
  void ended(std::uint32_t id);
  void broken(const Error& error);
  void look_if_all_ended();
  void finish_stop();
  void look_if_told();
  void watch_idleness();
  bool is_in_use() const;
  void set_still(bool is_still, std::function<void(Status)> then);

  DaemonRequest request_;
  UniqueFd dir_;
  UniqueFd execs_dir_;
  std::optional<LifeLock> life_lock_;
  std::optional<EventLog> events_;
  Life life_;
  Loop loop_;
  supervise::AllowGate gate_;
  std::unique_ptr<supervise::Supervisor> supervisor_;
  UniqueFd listener_;
  UniqueFd runtime_dir_;
  std::string socket_name_;
  Watch accept_watch_;
  Watch terminate_watch_;
  Watch grace_;
  Watch look_again_;
  std::map<std::uint64_t, std::unique_ptr<Peer>> peers_;
  std::uint64_t next_peer_ = 1;
  std::map<std::uint32_t, std::unique_ptr<Execution>> executions_;
  std::multimap<std::uint32_t, std::function<void(const ExecRecord&)>> waiting_;
  std::uint32_t next_exec_ = 1;
  RunFile run_;
  std::vector<std::string> warnings_;
  std::string stop_reason_;
  std::optional<Error> broken_;
  Services services_{*this};
  std::optional<IdleTimer> idle_pause_;
  std::optional<IdleTimer> ttl_;
  bool has_expired_ = false;
  std::size_t holds_ = 0;
  bool is_over_ = false;  ///< the sandbox has been shut down
};

/// Forks the supervisor of a session and waits until its sandbox is set up, or its error. The
/// caller holds the session's lock. What the user should be told. Blocks.
Result<std::vector<std::string>> launch_daemon(const DaemonRequest& request);

/// Name of the control socket in the runtime directory.
std::string socket_name(const std::string& state_dir, const Record& record);

}  // namespace sbx::session
