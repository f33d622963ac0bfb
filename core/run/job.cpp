// Job: start, relays, and every way to the end.
//
// Theory of operation: how a job ends
// 1. The main process ends, cannot be started, or the sandbox breaks (before it, a compiler that
//    fails ends the job the same way); or a time limit or a signal
//    to us asks for the end: then the whole inside gets SIGTERM (or that signal), and 2 seconds.
// 2. The sandbox is shut down: its PID 1 is killed, which takes everything inside with it. This is
//    waited for. Background processes that hold the output open are gone too, so both streams end.
// 3. What the pipes still hold is delivered, however slow the reader is; the time limit still
//    counts, as it would for a program that waits in its last write. After a time-out or a signal
//    the reader has one second.
#include "core/run/job.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/run/input_copy.h"
#include "core/run/signals.h"

namespace sbx::run {

namespace {

constexpr Millis kGrace{2000};
constexpr Millis kLastDrain{1000};
constexpr double kSecondsPerNs = 1e-9;

double seconds_between(std::int64_t from_ns, std::int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) * kSecondsPerNs;
}

}  // namespace

Job::Job(JobRequest request) : request_(std::move(request)), began_ns_(monotonic_ns()) {}

Job::~Job() {
  stop_relays();
}

Status Job::watch_signals() {
  for (const int signo : kEndingSignals) {
    if (is_ignored(signo)) continue;  // nohup, or a shell's background job
    SBX_ASSIGN(Watch watch, loop_.add_signal(signo, [this](const signalfd_siginfo& info) {
      on_signal(static_cast<int>(info.ssi_signo));
    }));
    signals_.push_back(std::move(watch));
    caught_signals_.push_back(signo);
  }
  // Without a terminal of its own the job stops and goes on together with us (Ctrl-Z, fg).
  if (!is_ignored(SIGTSTP)) {
    SBX_ASSIGN(Watch stopped,
               loop_.add_signal(SIGTSTP, [this](const signalfd_siginfo& /*info*/) { on_stop(); }));
    signals_.push_back(std::move(stopped));
  }
  if (!request_.exec.tty.has_value()) return {};
  SBX_ASSIGN(Watch resized, loop_.add_signal(SIGWINCH, [this](const signalfd_siginfo& /*info*/) {
    on_window_change();
  }));
  signals_.push_back(std::move(resized));
  return {};
}

JobEnd Job::run(backend::Plan& plan, std::shared_ptr<backend::HeadStart> head) {
  cpu_time_ = plan.cpu_time();
  Status watched = watch_signals();
  if (watched.ok()) {
    auto launched = plan.launch(std::move(head));
    if (launched.ok() && request_.on_sandbox) {
      if (Status noted = request_.on_sandbox(launched.value()->exit_fd()); !noted.ok()) {
        launched = std::move(noted).error();
      }
    }
    if (launched.ok()) {
      supervisor_ = std::make_unique<supervise::Supervisor>(
          loop_,
          std::move(launched).value(),
          [this](const supervise::Event& event) {
            was_ready_ |= event.kind == supervise::EventKind::kSandboxReady;
            if (event.kind != supervise::EventKind::kExecStarted) return;
            (exec_id_ != 0 ? started_ns_ : setup_done_ns_) = monotonic_ns();
          },
          gate_);
      start();
    } else {
      watched = std::move(launched).error();
    }
  }
  if (!watched.ok()) {
    // A machine boots for seconds; a signal to us ends that.
    if (watched.error().sys_errno() == EINTR) end_.facts.interrupted_by = pending_signal();
    if (end_.facts.interrupted_by == 0) end_.facts.sandbox_error = std::move(watched).error();
    end_.phases.setup_s = seconds_between(began_ns_, monotonic_ns());
    return std::move(end_);
  }
  while (phase_ != Phase::kDone) {
    Status turned = loop_.run();
    if (turned.ok()) continue;
    if (!end_.facts.sandbox_error.has_value()) {
      end_.facts.sandbox_error = std::move(turned).error();
    }
    static_cast<void>(supervisor_->shutdown());
    break;
  }
  take_output(out_, "standard output", end_.out);
  take_output(err_, "standard error", end_.err);
  in_.reset();
  raw_.reset();
  auto final = supervisor_->shutdown();
  if (final.ok()) {
    end_.final = std::move(final).value();
  } else if (!end_.facts.sandbox_error.has_value()) {
    end_.facts.sandbox_error = std::move(final).error();
  }
  end_.facts.oom_kills = end_.final.oom_kills;
  end_.facts.pids_denied = end_.final.pids_denied;
  look_at_disk();
  return std::move(end_);
}

/// What the job left of its disk. A program that gave space back before it ended is not noticed.
void Job::look_at_disk() {
  constexpr std::uint64_t kLeast = 65536;  // ext4 keeps a few blocks for its own trees
  struct statvfs info {};
  end_.facts.disk_is_full = end_.final.disk_is_full;
  end_.facts.inodes_are_up = end_.final.inodes_are_up;
  const int dir = supervisor_->work_dir();
  if (dir < 0 || ::fstatvfs(dir, &info) != 0) return;
  end_.facts.disk_is_full = std::uint64_t{info.f_bavail} * info.f_frsize < kLeast;
  end_.facts.inodes_are_up = info.f_ffree == 0;
}

void Job::start() {
  if (request_.timeout.has_value()) {
    timeout_ = loop_.add_timer(*request_.timeout, [this] { on_timeout(); });
  }
  if (cpu_time_.has_value()) {
    // What making the sandbox took is not the job's, where it is counted at all (v2).
    cpu_before_ns_ = supervisor_->cpu_time().ok() ? supervisor_->cpu_time().value() : 0;
    watch_cpu_time();
  }
  if (request_.deadline_ns.has_value()) {
    constexpr std::int64_t kNsPerMs = 1'000'000;
    const Millis left{
        std::max<std::int64_t>(0, (*request_.deadline_ns - monotonic_ns()) / kNsPerMs)};
    deadline_ = loop_.add_timer(left, [this] { on_deadline(); });
  }
  supervisor_->when_broken([this](Error error) {
    // What we kill ourselves ends "unexpectedly", too.
    if (!was_asked_to_end()) {
      end_.facts.pid1_died = error.sys_errno() == 0;
      end_.facts.sandbox_error = std::move(error);
    }
    on_end();
  });
  if (supervisor_->copies_needed().empty()) {
    start_first();  // the agent takes it up as soon as set-up is done
    return;
  }
  supervisor_->when_ready([this] {
    Status copied = copy_inputs(supervisor_->work_dir(), supervisor_->copies_needed());
    if (copied.ok()) {
      start_first();
      return;
    }
    end_.facts.sandbox_error = std::move(copied).error();
    on_end();
  });
}

void Job::start_first() {
  if (request_.compile.has_value()) {
    start_compiler();
  } else {
    start_program();
  }
}

void Job::start_compiler() {
  setup_done_ns_ = monotonic_ns();
  compiler_ = std::make_unique<CompileStep>(loop_, *supervisor_);
  Status started = compiler_->start(
      *request_.compile, request_.capture, request_.output, [this] { on_compiled(); });
  if (!started.ok()) {
    end_.facts.sandbox_error = std::move(started).error();
    on_end();
    return;
  }
  phase_ = Phase::kRunning;
}

/// The program follows, unless the compiler failed or the end was asked for meanwhile.
void Job::on_compiled() {
  if (phase_ != Phase::kRunning) {
    on_end();
    return;
  }
  end_.compile = compiler_->take_end();
  if (end_.compile->lost.has_value()) {
    Error lost = *end_.compile->lost;
    end_.facts.sandbox_error = std::move(lost).prefixed("the compiler's words");
    on_end();
    return;
  }
  if (exit_status(*end_.compile) == 0) {
    if (end_.compile->output.bytes > 0 && request_.on_compiler_text) request_.on_compiler_text();
    start_program();
    return;
  }
  end_.facts.wait_status = end_.compile->wait_status;
  end_.facts.exec_errno = end_.compile->exec_errno;
  end_.facts.exec_error = end_.compile->exec_error;
  on_end();
}

void Job::start_program() {
  supervise::ExecHandler handler;
  handler.on_streams = [this](backend::ExecStreams streams) { on_streams(std::move(streams)); };
  handler.on_exit = [this](int status) {
    end_.facts.wait_status = status;
    on_end();
  };
  handler.on_failed = [this](int error, Error message) {
    end_.facts.exec_errno = error;
    end_.facts.exec_error = std::move(message);
    on_end();
  };
  started_ns_ = monotonic_ns();
  auto id =
      supervisor_->exec(request_.exec,
                        request_.want_stdin ? supervise::Stdin::kWanted : supervise::Stdin::kNone,
                        std::move(handler));
  if (!id.ok()) {
    end_.facts.sandbox_error = std::move(id).error();
    on_end();
    return;
  }
  exec_id_ = id.value();
  phase_ = Phase::kRunning;
}

std::unique_ptr<supervise::Relay> Job::output_relay(UniqueFd source, int sink) {
  constexpr Bytes kMost{UINT64_MAX};
  const auto done = [this] { relay_done(); };
  if (request_.capture) {
    return supervise::Relay::to_memory(
        loop_, std::move(source), request_.output.value_or(kMost), done);
  }
  return supervise::Relay::to_fd(loop_, std::move(source), sink, request_.output, done);
}

void Job::on_streams(backend::ExecStreams streams) {
  const bool has_terminal = request_.exec.tty.has_value();
  if (streams.out.valid()) out_ = output_relay(std::move(streams.out), STDOUT_FILENO);
  if (streams.err.valid()) err_ = output_relay(std::move(streams.err), STDERR_FILENO);
  if (!request_.want_stdin || !streams.in.valid()) return;
  if (has_terminal) {
    enter_raw_mode();
    in_ = supervise::Relay::from_fd_to_terminal(loop_, STDIN_FILENO, std::move(streams.in), {});
  } else {
    in_ = supervise::Relay::from_fd(loop_, STDIN_FILENO, std::move(streams.in), {});
  }
}

void Job::enter_raw_mode() {
  auto raw = supervise::RawTerminal::enter(STDIN_FILENO);
  if (raw.ok()) raw_.emplace(std::move(raw).value());  // else our input is no terminal
  on_window_change();  // it may have changed since the size was asked for
}

void Job::on_window_change() {
  if (exec_id_ == 0) return;
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const auto size = supervise::terminal_size(fd);
    if (!size.has_value()) continue;
    backend::TermSize& known = *request_.exec.tty;
    if (size->rows != known.rows || size->cols != known.cols) {
      known = *size;
      static_cast<void>(supervisor_->resize(exec_id_, known));
    }
    return;
  }
}

void Job::relay_done() {
  if (phase_ == Phase::kDraining) finish_if_drained();
}

void Job::on_signal(int signo) {
  if (end_.facts.interrupted_by != 0) {  // the second one means: now
    on_end();
    stop_relays();
    finish_if_drained();
    return;
  }
  end_.facts.interrupted_by = signo;
  if (phase_ == Phase::kDraining) {
    stop_relays();
    finish_if_drained();
    return;
  }
  ask_to_end(signo);
}

/// Somebody wants us to stand still: the shell's Ctrl-Z, or kill -TSTP.
void Job::on_stop() {
  const bool has_job = phase_ == Phase::kRunning;
  if (has_job) static_cast<void>(supervisor_->signal(0, SIGSTOP));
  if (raw_.has_value()) {
    raw_->suspend();
  } else {
    ::raise(SIGSTOP);
  }
  if (has_job) static_cast<void>(supervisor_->signal(0, SIGCONT));
  if (request_.exec.tty.has_value()) on_window_change();
}

void Job::on_timeout() {
  if (end_.facts.interrupted_by != 0) return;
  end_.facts.timed_out = true;
  if (phase_ == Phase::kDraining) {
    stop_relays();
    finish_if_drained();
    return;
  }
  ask_to_end(SIGTERM);
}

bool Job::was_asked_to_end() const {
  const supervise::EndFacts& facts = end_.facts;
  return facts.timed_out || facts.cpu_time_is_up || facts.interrupted_by != 0;
}

/// Looks again when the rest could be used up at the earliest, with every processor busy.
void Job::watch_cpu_time() {
  constexpr std::uint64_t kNsPerMs = 1'000'000;
  constexpr std::int64_t kLeastPause = 4;
  const auto used = supervisor_->cpu_time();
  if (!used.ok() || was_asked_to_end()) return;
  const std::uint64_t limit = static_cast<std::uint64_t>(cpu_time_->v) * kNsPerMs;
  const std::uint64_t so_far = used.value() - std::min(used.value(), cpu_before_ns_);
  if (so_far >= limit) {
    end_.facts.cpu_time_is_up = true;
    ask_to_end(SIGXCPU);
    return;
  }
  const std::int64_t processors = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
  const auto left = static_cast<std::int64_t>((limit - so_far) / kNsPerMs);
  const Millis pause{std::max(left / processors, kLeastPause)};
  cpu_watch_ = loop_.add_timer(pause, [this] { watch_cpu_time(); });
}

void Job::on_deadline() {
  if (end_.facts.interrupted_by != 0 || end_.facts.timed_out) return;
  end_.missed_deadline = true;
  on_timeout();
}

void Job::ask_to_end(int signo) {
  if (phase_ == Phase::kSetup) {  // nobody there to be asked
    on_end();
    return;
  }
  phase_ = Phase::kEnding;
  static_cast<void>(supervisor_->signal(0, signo));
  grace_ = loop_.add_timer(kGrace, [this] { on_end(); });
}

/// The main process is gone or has to be: the sandbox is shut down, the streams run dry.
void Job::on_end() {
  if (phase_ == Phase::kDraining || phase_ == Phase::kDone) return;
  const std::int64_t now = monotonic_ns();
  if (started_ns_ == 0) started_ns_ = now;
  if (compiler_ && !end_.compile.has_value()) {  // cut short
    end_.compile = compiler_->take_end();
    compiler_->stop();
  }
  end_.phases.setup_s = seconds_between(began_ns_, compiler_ ? setup_done_ns_ : started_ns_);
  end_.phases.run_s = seconds_between(started_ns_, now);
  phase_ = Phase::kDraining;
  in_.reset();
  cpu_watch_.remove();
  static_cast<void>(supervisor_->shutdown());  // asked again for its result at the end
  if (was_asked_to_end()) {
    grace_ = loop_.add_timer(kLastDrain, [this] {
      stop_relays();
      finish_if_drained();
    });
  } else {
    grace_.remove();
  }
  finish_if_drained();
}

void Job::finish_if_drained() {
  if (phase_ != Phase::kDraining) return;
  if ((out_ && out_->running()) || (err_ && err_->running())) return;
  phase_ = Phase::kDone;
  timeout_.remove();
  deadline_.remove();
  grace_.remove();
  loop_.stop();
}

void Job::stop_relays() {
  if (compiler_) compiler_->stop();
  for (const auto* relay : {&in_, &out_, &err_}) {
    if (*relay) (*relay)->stop();
  }
}

void Job::take_output(std::unique_ptr<supervise::Relay>& relay,
                      std::string_view name,
                      Output& into) {
  if (!relay) return;
  into.bytes = relay->bytes();
  into.truncated = relay->truncated();
  into.data = relay->take_memory();
  if (relay->error().has_value() && !end_.facts.sandbox_error.has_value()) {
    end_.facts.sandbox_error = Error(*relay->error()).prefixed(name);
  }
  relay.reset();
}

Result<int> Job::open_work() {
  if (!supervisor_ || !was_ready_) return Error(Errc::kNotFound, "there never was a /work");
  if (supervisor_->work_dir() >= 0) return supervisor_->work_dir();
  SBX_ASSIGN(fetched_work_, supervisor_->fetch_work());
  return fetched_work_.get();
}

int Job::pending_signal() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int signo : caught_signals_) {
    ::sigaddset(&wanted, signo);
  }
  const timespec now{};
  const int signo = caught_signals_.empty() ? -1 : ::sigtimedwait(&wanted, nullptr, &now);
  if (signo > 0) seen_signal_ = signo;
  return seen_signal_;
}

}  // namespace sbx::run
