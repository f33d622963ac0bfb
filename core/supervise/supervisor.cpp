// Supervisor: see supervisor.h.
#include "core/supervise/supervisor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/host/facts.h"
#include "core/ipc/channel.h"

namespace sbx::supervise {

namespace {

/// Inside ends of an exec's streams, to be sent and closed.
struct InnerStreams {
  UniqueFd in;
  UniqueFd out;
  UniqueFd err;
};

/// A pipe whose ends the job may reopen through /dev/stdout: it must own them.
Result<sys::Pipe> owned_pipe(const std::optional<backend::User>& owner) {
  SBX_ASSIGN(sys::Pipe pipe, sys::pipe());
  if (owner.has_value()) SBX_TRY(sys::fchown(pipe.r.get(), owner->uid, owner->gid));
  return pipe;
}

/// Set-up errors know their step; the sentence for the user is made here.
Error setup_error(const ipc::SetupFailed& failed) {
  Error error(Errc::kSystem, text::cat("sandbox set-up, ", failed.step, ": ", failed.call));
  if (failed.error == 0) return error;
  return std::move(error).with_hint(host::explain_mount_failure({}, failed.error).hint());
}

}  // namespace

struct Supervisor::Running {
  ExecHandler handler;
  bool is_worker = false;  ///< of a copy: no program, no event
  bool has_terminal = false;
  bool is_last = false;
  uint32_t tag = 0;
};

Supervisor::Supervisor(Loop& loop,
                       std::unique_ptr<backend::Sandbox> sandbox,
                       EventSink sink,
                       Gate& gate)
    : loop_(loop),
      sandbox_(std::move(sandbox)),
      sink_(std::move(sink)),
      gate_(gate),
      pauser_(loop, *sandbox_) {
  agent_watch_ =
      loop_.add_fd(sandbox_->agent().fd(), EPOLLIN, [this](std::uint32_t) { on_message(); });
}

Supervisor::~Supervisor() {
  (void)shutdown();
}

void Supervisor::when_ready(std::function<void()> then) {
  on_ready_ = std::move(then);
}
void Supervisor::when_broken(std::function<void(Error)> then) {
  on_broken_ = std::move(then);
}

int Supervisor::work_dir() const {
  return work_dir_.get();
}

std::span<const backend::InputMount> Supervisor::copies_needed() const {
  return sandbox_->copies_needed();
}

void Supervisor::emit(EventKind kind, uint32_t id, int value, std::string text) {
  if (sink_) sink_(Event{kind, realtime_ns(), id, value, std::move(text)});
}

void Supervisor::broken(Error error) {
  if (is_broken_) return;
  is_broken_ = true;
  agent_watch_.remove();
  running_.clear();
  emit(EventKind::kSandboxEnded, 0, error.sys_errno(), error.message());
  pauser_.end();
  if (on_broken_) on_broken_(std::move(error));
}

Result<uint32_t> Supervisor::exec(const backend::ExecSpec& spec,
                                  Stdin want_stdin,
                                  ExecHandler handler) {
  const uint32_t id = next_id_++;
  auto running = std::make_unique<Running>();
  running->handler = std::move(handler);
  running->has_terminal = spec.tty.has_value();
  running->is_last = spec.is_last;
  running->tag = spec.tag;
  running_.emplace(id, std::move(running));
  Status started;
  GateRequest request{GateKind::kExec, spec.argv.empty() ? std::string() : spec.argv.front()};
  bool is_decided = false;
  gate_.decide(std::move(request), [&, this](const Verdict& verdict) {
    is_decided = true;
    started = verdict.is_allowed
                  ? start_exec(id, spec, want_stdin)
                  : Status(Error(Errc::kDenied, text::cat("not allowed: ", verdict.reason)));
  });
  // Gates that answer later come with approvals, which keep the spec themselves.
  if (!is_decided) started = Error(Errc::kUnsupported, "this gate answers later");
  if (!started.ok()) {
    running_.erase(id);
    return std::move(started).error();
  }
  return id;
}

Result<uint32_t> Supervisor::files(ipc::Files request,
                                   std::span<const int> fds,
                                   FilesHandler handler) {
  if (is_broken_ || final_.has_value()) return Error(Errc::kNotFound, "the sandbox has ended");
  const uint32_t id = next_id_++;
  request.id = id;
  SBX_TRY(sandbox_->agent().send(request, fds));
  auto running = std::make_unique<Running>();
  running->is_worker = true;
  running->handler.on_exit = std::move(handler.on_exit);
  running->handler.on_failed = [then = std::move(handler.on_failed)](int, Error error) {
    then(std::move(error));
  };
  running_.emplace(id, std::move(running));
  return id;
}

/// An agent that has ended is no failure here: its last message, which is read next, says why.
Status Supervisor::send_exec(const ipc::Exec& message, std::span<const int> fds) {
  Status sent = sandbox_->agent().send(message, fds);
  if (!sent.ok() && ipc::is_other_side_gone(sent.error())) return {};
  return sent;
}

Status Supervisor::start_exec(uint32_t id, const backend::ExecSpec& spec, Stdin want_stdin) {
  ipc::Exec message;
  message.id = id;
  message.argv = spec.argv;
  message.env = spec.env;
  message.cwd = spec.cwd;
  message.is_last = spec.is_last;
  if (spec.user.has_value()) {
    message.has_user = true;
    message.uid = spec.user->uid;
    message.gid = spec.user->gid;
  }
  if (spec.tty.has_value()) {
    message.tty = true;
    message.rows = spec.tty->rows;
    message.cols = spec.tty->cols;
    return send_exec(message, {});
  }
  const std::optional<backend::User> owner = sandbox_->stream_owner(spec.user);
  SBX_ASSIGN(sys::Pipe out, owned_pipe(owner));
  SBX_ASSIGN(sys::Pipe err, owned_pipe(owner));
  sys::Pipe in;
  if (want_stdin == Stdin::kWanted) {
    SBX_ASSIGN(in, owned_pipe(owner));
  } else {
    SBX_ASSIGN(in.r, sys::open("/dev/null", O_RDONLY));
  }
  const std::array<int, 3> fds{in.r.get(), out.w.get(), err.w.get()};
  SBX_TRY(send_exec(message, fds));
  backend::ExecStreams streams{std::move(in.w), std::move(out.r), std::move(err.r)};
  running_.at(id)->handler.on_streams(std::move(streams));
  return {};
}

Status Supervisor::signal(uint32_t exec_id, int signo) {
  if (is_broken_ || final_.has_value()) return {};
  Status sent = sandbox_->agent().send(ipc::Signal{exec_id, signo}, {});
  if (sent.ok() && signo == SIGKILL) pauser_.release_killed();
  return sent;
}

void Supervisor::freeze(std::function<void(Status)> then) {
  pauser_.request(true, std::move(then));
}

void Supervisor::thaw(std::function<void(Status)> then) {
  pauser_.request(false, std::move(then));
}

bool Supervisor::is_frozen() const {
  return pauser_.is_frozen();
}

/// Session numbers are the pids of the programs that we started: each begins one of its own.
Result<std::vector<backend::ProcessInfo>> Supervisor::processes() const {
  SBX_ASSIGN(std::vector<backend::ProcessInfo> all, sandbox_->processes());
  for (backend::ProcessInfo& process : all) {
    const auto found = sessions_.find(process.session);
    if (found != sessions_.end()) process.exec_id = found->second.tag;
  }
  return all;
}

/// A number is not given away while a process has it as its session, so a wrong one is never told.
void Supervisor::remember(int32_t pid, uint32_t id) {
  constexpr size_t kMost = 4096;
  const uint32_t tag = running_.at(id)->tag;
  sessions_[pid] = {id, tag != 0 ? tag : id};
  if (sessions_.size() <= kMost) return;
  std::erase_if(sessions_,
                [this](const auto& entry) { return !running_.contains(entry.second.id); });
}

Status Supervisor::resize(uint32_t exec_id, backend::TermSize size) {
  if (is_broken_ || final_.has_value()) return {};
  return sandbox_->agent().send(ipc::Resize{exec_id, size.rows, size.cols}, {});
}

void Supervisor::on_message() {
  Result<ipc::Received> received = sandbox_->agent().receive();
  if (!received.ok()) {
    if (received.error().code() == Errc::kNotFound) return;
    broken(std::move(received).error().prefixed("the sandbox ended unexpectedly"));
    return;
  }
  handle(std::move(received).value());
}

void Supervisor::handle(ipc::Received received) {
  if (const auto* ready = std::get_if<ipc::Ready>(&received.message)) {
    if (ready->version != ipc::kProtocolVersion || is_ready_) {
      broken(Error(Errc::kProtocol, "the agent speaks another version"));
      return;
    }
    is_ready_ = true;
    if (!received.fds.empty()) work_dir_ = std::move(received.fds.front());
    emit(EventKind::kSandboxReady, 0, 0, {});
    if (on_ready_) on_ready_();
    return;
  }
  if (const auto* failed = std::get_if<ipc::SetupFailed>(&received.message)) {
    broken(setup_error(*failed));
    return;
  }
  if (const auto* started = std::get_if<ipc::Started>(&received.message)) {
    handle_exec_message(started->id, received);
  } else if (const auto* not_run = std::get_if<ipc::ExecFailed>(&received.message)) {
    handle_exec_message(not_run->id, received);
  } else if (const auto* exited = std::get_if<ipc::Exited>(&received.message)) {
    handle_exec_message(exited->id, received);
  } else if (const auto* frozen = std::get_if<ipc::FrozenSet>(&received.message)) {
    if (!pauser_.take(*frozen)) {
      broken(Error(Errc::kProtocol, "the agent answered what it was not asked"));
    }
  } else {
    broken(Error(Errc::kProtocol, "the agent sent a message that only the host sends"));
  }
}

void Supervisor::handle_exec_message(uint32_t id, ipc::Received& received) {
  const auto found = running_.find(id);
  if (found == running_.end()) {
    broken(Error(Errc::kProtocol, "the agent spoke of a program that was never started"));
    return;
  }
  if (const auto* started = std::get_if<ipc::Started>(&received.message)) {
    emit(EventKind::kExecStarted, id, started->pid, {});
    remember(started->pid, id);
    if (!found->second->has_terminal || received.fds.empty()) return;
    backend::ExecStreams streams;
    streams.out = std::move(received.fds.front());
    if (Result<UniqueFd> in = sys::dup(streams.out.get(), 3); in.ok()) {
      streams.in = std::move(in).value();
    }
    found->second->handler.on_streams(std::move(streams));
    return;
  }
  // The rest is the end of this exec; its callbacks may start another or shut us down.
  const std::unique_ptr<Running> running = std::move(found->second);
  running_.erase(found);
  if (const auto* failed = std::get_if<ipc::ExecFailed>(&received.message)) {
    if (!running->is_worker) emit(EventKind::kExecFailed, id, failed->error, failed->what);
    const std::string message =
        failed->error != 0 ? sys_error(failed->what, failed->error).message() : failed->what;
    running->handler.on_failed(failed->is_program ? failed->error : 0,
                               Error(Errc::kSystem, message));
    return;
  }
  const int status = std::get<ipc::Exited>(received.message).wait_status;
  if (!running->is_worker) emit(EventKind::kExecExited, id, status, {});
  if (running->is_last) agent_watch_.remove();  // its end is no news any more
  running->handler.on_exit(status);
}

Result<backend::FinalState> Supervisor::shutdown() {
  if (!final_.has_value()) {
    agent_watch_.remove();
    running_.clear();
    pauser_.end();
    final_ = sandbox_->finish();
    if (!is_broken_) emit(EventKind::kSandboxEnded, 0, 0, {});
  }
  return *final_;
}

}  // namespace sbx::supervise
