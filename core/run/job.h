// Job: one program, compiled before or not, in one sandbox, from its start to the moment when
// nothing of it is left.
//
// It owns the loop: relays, time limit, signals to us, our terminal. It knows neither profiles nor
// artifacts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/run/compile_step.h"
#include "core/run/report.h"
#include "core/supervise/outcome.h"
#include "core/supervise/relay.h"
#include "core/supervise/supervisor.h"
#include "core/supervise/terminal.h"

namespace sbx::run {

struct JobRequest {
  std::optional<backend::ExecSpec> compile;  ///< runs first; the program only when it ends with 0
  backend::ExecSpec exec;
  bool want_stdin = false;
  bool capture = false;  ///< output goes into memory instead of to 1 and 2
  /// Told when the compiler had something to say and the program is started after all.
  std::function<void()> on_compiler_text;
  std::optional<Bytes> output;  ///< limit of each stream
  std::optional<Millis> timeout;
  std::optional<std::int64_t> deadline_ns;  ///< CLOCK_MONOTONIC
  /// Called when the sandbox is there, before the program is started; may be empty.
  std::function<Status(int init_pidfd)> on_sandbox;
};

/// What is known at the end.
struct JobEnd {
  supervise::EndFacts facts;
  bool missed_deadline = false;  ///< what timed out was the deadline
  backend::FinalState final;
  std::optional<CompileStep::End> compile;  ///< when it was begun
  bool tool_is_missing = false;             ///< see judge_missing_tool()
  Output out;
  Output err;
  Phases phases;  ///< without collect_s
};

class Job {
 public:
  /// Blocks SIGINT, SIGTERM, SIGHUP and SIGQUIT (where they are not ignored) until it dies: made
  /// before the sandbox, so that no signal finds us half way.
  explicit Job(JobRequest request);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Runs to the end and blocks. The sandbox is gone afterwards, but work_dir() still works.
  JobEnd run(backend::Plan& plan, std::shared_ptr<backend::HeadStart> head);
  /// The job's /work after run(); kNotFound when it never came to be. Where it has to be brought
  /// out first this blocks as long as that takes.
  Result<int> open_work();
  /// The signal that would have ended us since run() returned, else 0.
  int pending_signal();

 private:
  enum class Phase : std::uint8_t { kSetup, kRunning, kEnding, kDraining, kDone };

  Status watch_signals();
  void start();
  void start_first();
  void start_compiler();
  void on_compiled();
  void start_program();
  void on_streams(backend::ExecStreams streams);
  std::unique_ptr<supervise::Relay> output_relay(UniqueFd source, int sink);
  void relay_done();
  void on_signal(int signo);
  void on_timeout();
  void watch_cpu_time();
  void look_at_disk();
  bool was_asked_to_end() const;
  void on_deadline();
  void on_stop();
  void ask_to_end(int signo);
  void on_end();
  void finish_if_drained();
  void stop_relays();
  void on_window_change();
  void enter_raw_mode();
  void take_output(std::unique_ptr<supervise::Relay>& relay, std::string_view name, Output& into);

  JobRequest request_;
  Loop loop_;
  supervise::AllowGate gate_;
  std::unique_ptr<supervise::Supervisor> supervisor_;
  std::unique_ptr<CompileStep> compiler_;
  UniqueFd fetched_work_;
  std::uint32_t exec_id_ = 0;
  bool was_ready_ = false;
  Phase phase_ = Phase::kSetup;
  JobEnd end_;
  std::int64_t began_ns_ = 0;
  std::int64_t setup_done_ns_ = 0;  // the compiler was started
  std::int64_t started_ns_ = 0;
  std::unique_ptr<supervise::Relay> in_;
  std::unique_ptr<supervise::Relay> out_;
  std::unique_ptr<supervise::Relay> err_;
  std::optional<supervise::RawTerminal> raw_;
  std::vector<int> caught_signals_;
  int seen_signal_ = 0;
  std::vector<Watch> signals_;
  Watch timeout_;
  std::optional<Millis> cpu_time_;  ///< of all processes together, when we hold the job to it
  std::uint64_t cpu_before_ns_ = 0;
  Watch cpu_watch_;
  Watch deadline_;
  Watch grace_;
};

}  // namespace sbx::run
