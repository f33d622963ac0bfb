// Client exec: the command that waits for a program in a session.
//
// The supervisor writes into our own stdout and stderr; we move only stdin, so that our shell's job
// control decides who reads the terminal.
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <utility>

#include "core/base/loop.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/signals.h"
#include "core/session/client.h"
#include "core/supervise/relay.h"
#include "core/supervise/terminal.h"

namespace sbx::session {

namespace {

constexpr Bytes kMostCaptured{std::uint64_t{64} << 20U};

class Waiting {
 public:
  Waiting(Client& client, const ExecOptions& options) : client_(client), options_(options) {}
  Result<ExecResult> run();

 private:
  Status request();
  Status watch_signals();
  void on_frames();
  void handle(Frame frame);
  void on_signal(int signo);
  void on_stop();
  void on_window_change();
  void take_stdin(UniqueFd in);
  void finish(Result<ExecResult> result);
  void look_if_captured();

  Client& client_;
  const ExecOptions& options_;
  Loop loop_;
  std::optional<Result<ExecResult>> result_;
  std::int64_t exec_ = 0;
  int first_signal_ = 0;
  backend::TermSize size_;
  std::vector<Watch> watches_;
  Watch socket_watch_;
  std::optional<supervise::RawTerminal> raw_;
  std::unique_ptr<supervise::Relay> in_;
  std::unique_ptr<supervise::Relay> out_;
  std::unique_ptr<supervise::Relay> err_;
};

std::optional<backend::TermSize> our_size() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (auto size = supervise::terminal_size(fd)) return size;
  }
  return std::nullopt;
}

Fields exec_fields(const ExecOptions& options) {
  Fields fields("exec");
  fields.set("argv", options.argv);
  fields.set("env", options.env);
  if (options.cwd.has_value()) fields.set("cwd", *options.cwd);
  if (options.user.has_value()) {
    fields.set("uid", std::int64_t{options.user->uid});
    fields.set("gid", std::int64_t{options.user->gid});
  }
  if (options.timeout.has_value()) fields.set("timeout_ms", options.timeout->v);
  fields.set("stdin", options.want_stdin || options.tty);
  fields.set("detach", options.is_detached);
  fields.set("no_start", options.no_start);
  return fields;
}

Status Waiting::request() {
  Fields fields = exec_fields(options_);
  if (options_.tty) {
    size_ = our_size().value_or(backend::TermSize{});
    fields.set("tty", true);
    fields.set("rows", std::int64_t{size_.rows});
    fields.set("cols", std::int64_t{size_.cols});
    if (const char* term = ::getenv("TERM")) fields.set("term", std::string(term));
    // Before the program can write: what it writes has its own line ends already.
    if (auto raw = supervise::RawTerminal::enter(STDIN_FILENO); raw.ok()) {
      raw_.emplace(std::move(raw).value());
    }
  }
  if (options_.is_detached) return client_.send(std::move(fields));
  std::array<int, 2> fds{STDOUT_FILENO, STDERR_FILENO};
  sys::Pipe out;
  sys::Pipe err;
  if (options_.capture) {
    SBX_ASSIGN(out, sys::pipe());
    SBX_ASSIGN(err, sys::pipe());
    fds = {out.w.get(), err.w.get()};
    const auto done = [this] { look_if_captured(); };
    out_ = supervise::Relay::to_memory(loop_, std::move(out.r), kMostCaptured, done);
    err_ = supervise::Relay::to_memory(loop_, std::move(err.r), kMostCaptured, done);
  }
  return client_.send(std::move(fields), fds);
}

Status Waiting::watch_signals() {
  for (const int signo : run::kEndingSignals) {
    if (run::is_ignored(signo)) continue;
    SBX_ASSIGN(Watch watch, loop_.add_signal(signo, [this](const signalfd_siginfo& info) {
      on_signal(static_cast<int>(info.ssi_signo));
    }));
    watches_.push_back(std::move(watch));
  }
  if (!run::is_ignored(SIGTSTP)) {
    SBX_ASSIGN(Watch stopped,
               loop_.add_signal(SIGTSTP, [this](const signalfd_siginfo& /*info*/) { on_stop(); }));
    watches_.push_back(std::move(stopped));
  }
  if (!options_.tty) return {};
  SBX_ASSIGN(Watch resized, loop_.add_signal(SIGWINCH, [this](const signalfd_siginfo& /*info*/) {
    on_window_change();
  }));
  watches_.push_back(std::move(resized));
  return {};
}

Result<ExecResult> Waiting::run() {
  SBX_TRY(watch_signals());
  SBX_TRY(request());
  socket_watch_ =
      loop_.add_fd(client_.fd(), EPOLLIN, [this](std::uint32_t /*events*/) { on_frames(); });
  SBX_TRY(loop_.run());
  in_.reset();
  raw_.reset();
  return *std::move(result_);
}

void Waiting::on_frames() {
  while (!result_.has_value()) {
    auto frame = client_.poll();
    if (!frame.ok()) {
      Error error = std::move(frame).error();
      const bool is_broken = error.code() == Errc::kProtocol || error.sys_errno() != 0;
      if (is_broken) {
        error = std::move(error)
                    .prefixed(exec_ == 0 ? "the session ended before it could start the program"
                                         : "the session ended while the program ran")
                    .with_code(Errc::kSystem)
                    .with_hint("sbx session show tells why; a command starts it again");
      }
      return finish(std::move(error));
    }
    if (!frame.value().has_value()) return;
    handle(*std::move(frame).value());
  }
}

void Waiting::handle(Frame frame) {
  const std::string op = frame.fields.op();
  if (op == "exec") {
    exec_ = frame.fields.number("id");
    if (!frame.fds.empty()) take_stdin(std::move(frame.fds.front()));
    if (!options_.is_detached) return;
    ExecResult started;
    started.record.id = static_cast<std::uint32_t>(exec_);
    started.record.argv = options_.argv;
    finish(std::move(started));
  } else if (op == "stdin") {
    if (!frame.fds.empty()) take_stdin(std::move(frame.fds.front()));
  } else if (op == "exit") {
    auto record = parse_exec_record(frame.fields.text("record"));
    if (!record.ok()) return finish(std::move(record).error());
    ExecResult ended;
    ended.record = std::move(record).value();
    finish(std::move(ended));
  }
}

void Waiting::take_stdin(UniqueFd in) {
  if (!options_.tty) {
    in_ = supervise::Relay::from_fd(loop_, STDIN_FILENO, std::move(in), {});
    return;
  }
  on_window_change();
  in_ = supervise::Relay::from_fd_to_terminal(loop_, STDIN_FILENO, std::move(in), {});
}

void Waiting::finish(Result<ExecResult> result) {
  result_.emplace(std::move(result));
  socket_watch_.remove();
  in_.reset();
  look_if_captured();
}

/// Captured output is whole once the supervisor has let go of our pipes.
void Waiting::look_if_captured() {
  if (!result_.has_value()) return;
  if (result_->ok() && ((out_ && out_->running()) || (err_ && err_->running()))) return;
  if (result_->ok() && out_ && err_) {
    ExecResult& ended = result_->value();
    ended.out_truncated = out_->truncated();
    ended.err_truncated = err_->truncated();
    ended.out = out_->take_memory();
    ended.err = err_->take_memory();
  }
  loop_.stop();
}

void Waiting::on_signal(int signo) {
  if (exec_ == 0 || first_signal_ != 0) {
    if (exec_ == 0) return finish(Error(Errc::kSystem, "interrupted"));
  }
  first_signal_ = signo;
  Fields fields("signal");
  fields.set("exec", exec_).set("signo", std::int64_t{signo}).set("interrupted", true);
  if (Status sent = client_.send(std::move(fields)); !sent.ok()) finish(std::move(sent).error());
}

void Waiting::on_stop() {
  if (raw_.has_value()) {
    raw_->suspend();
    on_window_change();
  } else {
    ::raise(SIGSTOP);
  }
}

void Waiting::on_window_change() {
  const auto size = our_size();
  if (!size.has_value() || exec_ == 0) return;
  if (size->rows == size_.rows && size->cols == size_.cols) return;
  size_ = *size;
  Fields fields("resize");
  fields.set("exec", exec_);
  fields.set("rows", std::int64_t{size_.rows}).set("cols", std::int64_t{size_.cols});
  (void)client_.send(std::move(fields));
}

}  // namespace

Result<ExecResult> run_exec(Client& client, const ExecOptions& options) {
  Waiting waiting(client, options);
  return waiting.run();
}

}  // namespace sbx::session
