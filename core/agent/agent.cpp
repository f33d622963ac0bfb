// Agent: see agent.h.
#include "core/agent/agent.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>
#include <variant>

#include "core/agent/files.h"
#include "core/agent/pause.h"
#include "core/agent/pty.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/proc_table.h"

namespace sbx::agent {

namespace {

/// One program from exec to its reaping.
struct Child {
  uint32_t id = 0;
  std::string cwd;
  Starting starting;
  bool is_starting = true;
  bool is_last = false;
  bool is_worker = false;   ///< of a copy
  bool has_exited = false;  ///< reaped before its report was read
  int wait_status = 0;
};

class Agent {
 public:
  Agent(ipc::Channel channel, AgentConfig config)
      : channel_(std::move(channel)), config_(std::move(config)) {}

  Status run();

 private:
  Status serve_channel();
  Status handle(ipc::Exec& request, std::span<const UniqueFd> fds);
  Status handle(const ipc::Files& request, std::span<const UniqueFd> fds);
  void handle(const ipc::Signal& request);
  static void signal_session(pid_t leader, int signo);
  void handle(const ipc::Resize& request);
  Status handle(const ipc::SetFrozen& request);
  Status reap();
  Status read_reports(std::span<const pollfd> ready);
  Status report(Child& child);
  Child* find(uint32_t id);

  ipc::Channel channel_;
  AgentConfig config_;
  UniqueFd child_signal_;
  std::vector<Child> children_;
  bool has_forked_ = false;
  Pause pause_;
};

Status Agent::run() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  child_signal_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!child_signal_.valid()) return sys_error("signalfd for child processes");
  std::vector<pollfd> polled;
  while (true) {
    polled.assign({{channel_.fd(), POLLIN, 0}, {child_signal_.get(), POLLIN, 0}});
    for (const Child& child : children_) {
      if (child.is_starting) polled.push_back({child.starting.errors.get(), POLLIN, 0});
    }
    SBX_TRY(sys::poll(polled, Millis{-1}));
    SBX_TRY(read_reports(std::span<const pollfd>(polled).subspan(2)));
    if (polled[1].revents != 0) SBX_TRY(reap());
    if (polled[0].revents != 0) SBX_TRY(serve_channel());
  }
}

Status Agent::serve_channel() {
  SBX_ASSIGN(ipc::Received received, channel_.receive(ipc::Wait::kNo));
  if (auto* exec = std::get_if<ipc::Exec>(&received.message)) return handle(*exec, received.fds);
  if (auto* files = std::get_if<ipc::Files>(&received.message)) return handle(*files, received.fds);
  if (auto* signal = std::get_if<ipc::Signal>(&received.message)) {
    handle(*signal);
    return {};
  }
  if (auto* resize = std::get_if<ipc::Resize>(&received.message)) {
    handle(*resize);
    return {};
  }
  if (auto* frozen = std::get_if<ipc::SetFrozen>(&received.message)) return handle(*frozen);
  return Error(Errc::kProtocol, "a message that the agent does not take");
}

Status Agent::handle(ipc::Exec& request, std::span<const UniqueFd> fds) {
  const bool is_first = !std::exchange(has_forked_, true);
  const ExecContext context{config_.rules,
                            config_.join_fds,
                            config_.group.get(),
                            config_.own_binary,
                            is_first && !config_.is_lasting};
  Result<Starting> started = start_exec(request, fds, context);
  if (!started.ok()) {
    const Error& error = started.error();
    return channel_.send(ipc::ExecFailed{request.id, false, error.message(), error.sys_errno()});
  }
  if (pause_.is_on()) (void)::kill(started.value().pid, SIGSTOP);
  Child child;
  child.id = request.id;
  child.cwd = std::move(request.cwd);
  child.is_last = request.is_last;
  child.starting = std::move(started).value();
  children_.push_back(std::move(child));
  return {};
}

Status Agent::handle(const ipc::SetFrozen& request) {
  if (request.is_frozen) {
    std::vector<pid_t> workers;
    for (const Child& child : children_) {
      if (child.is_worker && !child.has_exited) workers.push_back(child.starting.pid);
    }
    const Status stopped = pause_.stop_all(workers);
    if (stopped.ok()) return channel_.send(ipc::FrozenSet{true, 0});
    const int error = stopped.error().sys_errno();
    return channel_.send(ipc::FrozenSet{true, error != 0 ? error : EIO});
  }
  if (pause_.is_on()) pause_.continue_all();
  for (const auto& [id, signo] : pause_.take_deferred()) {
    handle(ipc::Signal{id, signo});
  }
  return channel_.send(ipc::FrozenSet{false, 0});
}

/// A file worker is a child without an exec, so there is no start to be reported.
Status Agent::handle(const ipc::Files& request, std::span<const UniqueFd> fds) {
  const auto workers = static_cast<size_t>(std::count_if(
      children_.begin(), children_.end(), [](const Child& c) { return c.is_worker; }));
  Result<pid_t> started = Error(Errc::kLimit, "too many copies at the same time");
  if (workers < kMaxFileWorkers) {
    has_forked_ = true;
    started = start_files(request, fds, config_.rules);
  }
  if (!started.ok()) {
    const Error& error = started.error();
    return channel_.send(ipc::ExecFailed{request.id, false, error.message(), error.sys_errno()});
  }
  Child child;
  child.id = request.id;
  child.starting.pid = started.value();
  child.is_starting = false;
  child.is_worker = true;
  children_.push_back(std::move(child));
  return {};
}

void Agent::handle(const ipc::Signal& request) {
  if (pause_.defer(request.id, request.signo)) return;
  if (request.id == 0) {
    (void)::kill(-1, request.signo);  // every process of the namespace but ourselves
    return;
  }
  const Child* child = find(request.id);
  if (child == nullptr || child->has_exited) return;
  signal_session(child->starting.pid, request.signo);
}

/// The program, its process group, and whatever else is in its session: background jobs of a shell
/// have groups of their own. What made itself a session of its own is a daemon, and stays.
void Agent::signal_session(pid_t leader, int signo) {
  // Before its setsid the child has no group of that number yet.
  if (::kill(-leader, signo) != 0) (void)::kill(leader, signo);
  const auto proc = confine::open_proc();
  if (!proc.ok()) return;
  const auto all = confine::list_processes(proc.value().get());
  if (!all.ok()) return;
  for (const pid_t pid : all.value()) {
    if (pid == ::getpid() || ::getsid(pid) != leader || ::getpgid(pid) == leader) continue;
    (void)::kill(pid, signo);
  }
}

void Agent::handle(const ipc::Resize& request) {
  const Child* child = find(request.id);
  if (child == nullptr || !child->starting.master.valid()) return;
  (void)resize_pty(child->starting.master.get(), request.rows, request.cols);
}

Status Agent::reap() {
  signalfd_siginfo info{};
  while (::read(child_signal_.get(), &info, sizeof info) > 0) {
  }
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return {};
    const auto child = std::find_if(children_.begin(), children_.end(), [pid](const Child& c) {
      return c.starting.pid == pid && !c.has_exited;
    });
    if (child == children_.end()) continue;  // an orphan that became ours
    child->has_exited = true;
    child->wait_status = status;
    // Its report pipe has ended with it, so this cannot block.
    if (child->is_starting) SBX_TRY(report(*child));
    if (child->is_starting) continue;  // failed to start: already told
    SBX_TRY(channel_.send(ipc::Exited{child->id, status}));
    if (child->is_last) ::_exit(0);
    children_.erase(child);
  }
}

Status Agent::read_reports(std::span<const pollfd> ready) {
  for (const pollfd& entry : ready) {
    if (entry.revents == 0) continue;
    const auto child = std::find_if(children_.begin(), children_.end(), [&entry](const Child& c) {
      return c.is_starting && c.starting.errors.get() == entry.fd;
    });
    if (child != children_.end()) SBX_TRY(report(*child));
  }
  // Those that never ran and are reaped have nothing more to say.
  std::erase_if(children_, [](const Child& c) { return c.is_starting && c.has_exited; });
  return {};
}

/// Tells how the start went, once. A child that never ran stays until it is reaped.
Status Agent::report(Child& child) {
  if (!child.starting.errors.valid()) return {};
  const ExecFailure failure = read_report(child.starting, child.cwd);
  child.starting.errors.reset();
  if (failure.has_failed) {
    return channel_.send(
        ipc::ExecFailed{child.id, failure.is_program, failure.what, failure.error});
  }
  child.is_starting = false;
  std::vector<int> fds;
  if (child.starting.master.valid()) fds.push_back(child.starting.master.get());
  return channel_.send(ipc::Started{child.id, child.starting.pid}, fds);
}

Child* Agent::find(uint32_t id) {
  const auto child =
      std::find_if(children_.begin(), children_.end(), [id](const Child& c) { return c.id == id; });
  return child == children_.end() ? nullptr : &*child;
}

}  // namespace

void run_agent(ipc::Channel channel, AgentConfig config) {
  Agent agent(std::move(channel), std::move(config));
  // Nobody is left to tell: the supervisor has gone or does not speak our language.
  (void)agent.run();
  ::_exit(0);
}

}  // namespace sbx::agent
