// Supervisor: one living sandbox seen from outside: its agent's messages, its execs, its end.
//
// Runs on the caller's Loop and never blocks but in shutdown(). It does not relay bytes (relay.h),
// judge outcomes (outcome.h) or know about artifacts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/supervise/events.h"
#include "core/supervise/gate.h"
#include "core/supervise/pauser.h"

namespace sbx::supervise {

/// What the owner of one exec is told. Each is called on the loop; none before exec() returned,
/// but `on_streams`, which is called from within exec() when no terminal was asked for.
struct ExecHandler {
  std::function<void(backend::ExecStreams)> on_streams;
  /// The main process was reaped; `wait_status` as waitpid(2).
  std::function<void(int wait_status)> on_exit;
  /// It never ran. `error` is the errno of the program's own exec (ENOENT, EACCES ...), or 0 when a
  /// step on the way to it failed, which is the sandbox's fault. The message names the object.
  std::function<void(int error, Error message)> on_failed;
};

enum class Stdin { kNone, kWanted };

/// What the owner of a copy's inner end is told, on the loop. How the copy went is in its report.
struct FilesHandler {
  /// The worker was reaped: 0 when its report says success.
  std::function<void(int wait_status)> on_exit;
  std::function<void(Error)> on_failed;  ///< it never ran
};

class Supervisor {
 public:
  /// Takes the sandbox; `sink` and `gate` outlive the supervisor.
  Supervisor(Loop& loop, std::unique_ptr<backend::Sandbox> sandbox, EventSink sink, Gate& gate);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Called once set-up inside is done (before any later message is handled).
  void when_ready(std::function<void()> then);
  /// Called once when the sandbox ended or broke without being asked to (set-up failed, PID 1
  /// died, the agent sent rubbish). No exec callback follows it.
  void when_broken(std::function<void(Error)> then);

  /// Starts a program. May be called before set-up is done: the agent does both in order.
  Result<uint32_t> exec(const backend::ExecSpec& spec, Stdin want_stdin, ExecHandler handler);
  /// Starts a file worker inside; `request.id` is chosen here. `fds` are duplicated to it and stay
  /// the caller's; see ipc::Files. Works while the payload is frozen. An id of signal() too.
  Result<uint32_t> files(ipc::Files request, std::span<const int> fds, FilesHandler handler);
  /// Signals an exec's process group, or all processes inside when `exec_id` is 0.
  Status signal(uint32_t exec_id, int signo);
  Status resize(uint32_t exec_id, backend::TermSize size);

  /// The job's /work as a directory descriptor, valid from readiness on, also after the end.
  /// -1 before. Owned by the supervisor.
  int work_dir() const;
  std::span<const backend::InputMount> copies_needed() const;
  /// See backend::Sandbox::fetch_work. After shutdown(), where work_dir() is -1.
  Result<UniqueFd> fetch_work() { return sandbox_->fetch_work(); }

  /// Stops every process inside but PID 1 / lets them go on, by the host where it has a freezer,
  /// else by the agent. Requests are carried out in order; `then` is told once, perhaps before the
  /// call returns; success when it is so already. One that cannot be stopped in time (a process in
  /// an uninterruptible sleep) fails and leaves everything running. While stopped: signals wait
  /// but for SIGKILL (and with a cgroup v2 any other that ends the program), a new exec waits,
  /// shutdown() works.
  void freeze(std::function<void(Status)> then);
  void thaw(std::function<void(Status)> then);
  bool is_frozen() const;

  /// What the payload uses now; blocks for some reads from /proc or of a group's files.
  Result<backend::LiveUsage> usage() const { return sandbox_->usage(); }
  /// All processes inside but PID 1, in whatever state the inside is.
  Result<std::vector<backend::ProcessInfo>> processes() const;

  /// How many processes the memory limit has ended so far; one small read.
  Result<std::uint64_t> oom_kills() const { return sandbox_->oom_kills(); }

  /// CPU time of the job so far, in ns.
  Result<std::uint64_t> cpu_time() const { return sandbox_->cpu_time(); }

  /// Kills everything inside, waits until it is gone (bounded) and reads the counters. Blocks for
  /// some milliseconds. Idempotent.
  Result<backend::FinalState> shutdown();

 private:
  struct Running;
  struct SessionOwner {
    uint32_t id;
    uint32_t tag;
  };
  void remember(int32_t pid, uint32_t id);
  void on_message();
  void handle(ipc::Received received);
  void handle_exec_message(uint32_t id, ipc::Received& received);
  void broken(Error error);
  void emit(EventKind kind, uint32_t id, int value, std::string text);
  Status send_exec(const ipc::Exec& message, std::span<const int> fds);
  Status start_exec(uint32_t id, const backend::ExecSpec& spec, Stdin want_stdin);

  Loop& loop_;
  std::unique_ptr<backend::Sandbox> sandbox_;
  EventSink sink_;
  Gate& gate_;
  std::map<uint32_t, std::unique_ptr<Running>> running_;
  std::map<int32_t, SessionOwner> sessions_;  // main process inside -> exec; also of ended ones
  Pauser pauser_;
  uint32_t next_id_ = 1;
  UniqueFd work_dir_;
  bool is_ready_ = false;
  bool is_broken_ = false;
  std::function<void()> on_ready_;
  std::function<void(Error)> on_broken_;
  std::optional<Result<backend::FinalState>> final_;
  Watch agent_watch_;
};

}  // namespace sbx::supervise
