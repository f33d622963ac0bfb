// Daemon, first part: from the fork to a sandbox that is set up. See daemon.h.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/base/exit_code.h"
#include "core/base/fs.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/host/paths.h"
#include "core/run/python_hook.h"
#include "core/session/daemon.h"
#include "core/session/layers.h"
#include "core/session/peer.h"
#include "core/session/root_image.h"

namespace sbx::session {

namespace {

constexpr int kBacklog = 128;

/// Binds below a directory descriptor, so that no path is too long for a socket's address.
Result<UniqueFd> bind_socket(int dir, const std::string& name) {
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return sys_error("make the control socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = text::cat("/proc/self/fd/", dir, "/", name);
  if (path.size() >= sizeof address.sun_path) return Error(Errc::kInternal, "a long socket name");
  std::memcpy(static_cast<char*>(address.sun_path), path.c_str(), path.size());
  (void)sys::unlinkat(dir, name);  // of one that was killed: we hold the life lock
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return sys_error("bind the control socket");
  }
  if (::listen(listener.get(), kBacklog) != 0) return sys_error("listen on the control socket");
  return listener;
}

/// A program whose supervisor was killed.
ExecRecord lost(ExecRecord record) {
  record.state = ExecState::kEnded;
  record.cause = supervise::name(supervise::Cause::kSandboxError);
  record.exit_status = kExitSandbox;
  record.error = "the session's supervisor was killed";
  return record;
}

}  // namespace

std::string socket_name(const std::string& state_dir, const Record& record) {
  constexpr std::size_t kDigits = 24;
  Sha256 digest;
  digest.update(state_dir);
  digest.update(std::string_view("\0", 1));
  digest.update(record.id);
  return text::cat("s-", digest.hex().substr(0, kDigits));
}

Status Daemon::start() {
  SBX_TRY(take_life());
  Status begun = begin();
  // The session was stopped before, and is so again.
  if (!begun.ok()) set_state(LifeState::kEnded);
  return begun;
}

Status Daemon::begin() {
  SBX_TRY(write_run_file(RunState::kRunning, {}));
  SBX_TRY(listen());
  Status launched = launch();
  if (!launched.ok()) {
    (void)write_run_file(RunState::kStopped, launched.error().message());
    (void)sys::unlinkat(runtime_dir_.get(), socket_name_);
    return launched;
  }
  set_state(LifeState::kRunning);
  note(EventKind::kStarted, {{"pid", std::int64_t{life_.supervisor.pid}}});
  services_.start_all();
  watch_idleness();
  return {};
}

Status Daemon::take_life() {
  SBX_ASSIGN(dir_, fs::open_dir(text::cat(request_.state_dir, "/sessions/", request_.record.name)));
  SBX_ASSIGN(execs_dir_, open_execs(dir_.get()));
  SBX_ASSIGN(EventLog events, EventLog::open(dir_.get()));
  events_.emplace(std::move(events));
  const bool has_crashed = has_crashed_before();
  SBX_ASSIGN(LifeLock lock, LifeLock::take(dir_.get()));
  life_lock_.emplace(std::move(lock));
  if (has_crashed) note(EventKind::kCrashed, {{"reason", "found at the next start"}});
  SBX_ASSIGN(life_.supervisor, confine::identity_of(::getpid()));
  life_.id = request_.record.id;
  life_.protocol = kControlProtocol;
  life_.version = SBX_VERSION;
  life_.since_ns = realtime_ns();
  life_.used_ns = life_.since_ns;
  SBX_TRY(life_lock_->write(life_));  // before anything slow: until then it names our predecessor
  const auto records = read_exec_records(execs_dir_.get());
  if (records.ok()) {
    for (const ExecRecord& record : records.value()) {
      next_exec_ = record.id + 1;
      if (record.state == ExecState::kRunning) keep_exec_record(execs_dir_.get(), lost(record));
    }
  }
  return {};
}

/// Whether the supervisor before us was killed, or the machine stopped.
/// Of the last start; asked before our own words are in the life file.
bool Daemon::has_crashed_before() const {
  constexpr Bytes kLongest{std::uint64_t{64} << 10U};
  const auto text = fs::read_file_at(dir_.get(), "run.json", kLongest);
  if (!text.ok()) return false;
  const auto before = parse_run_file(text.value());
  if (!before.ok() || before.value().state != RunState::kRunning) return false;
  std::optional<Life> last;
  (void)look_at_life(dir_.get(), &last);
  return !last.has_value() || last->state != LifeState::kEnded;
}

Status Daemon::listen() {
  SBX_ASSIGN(host::Dir runtime, host::open_runtime_dir());
  runtime_dir_ = std::move(runtime.fd);
  socket_name_ = socket_name(request_.state_dir, request_.record);
  SBX_ASSIGN(listener_, bind_socket(runtime_dir_.get(), socket_name_));
  accept_watch_ =
      loop_.add_fd(listener_.get(), EPOLLIN, [this](std::uint32_t /*events*/) { on_accept(); });
  SBX_ASSIGN(terminate_watch_, loop_.add_signal(SIGTERM, [this](const signalfd_siginfo& /*info*/) {
    stop("stopped", kDefaultGrace);
  }));
  return {};
}

Status Daemon::launch() {
  SBX_ASSIGN(const backend::Backend* const backend, backend_of(request_.record));
  backend::LaunchRequest launch;
  launch.profile = &request_.profile;
  SBX_ASSIGN(launch.id, confine::cgroup_id());
  launch.state_dir = request_.state_dir;
  launch.files.push_back({std::string(run::kPythonHookPath), std::string(run::python_hook())});
  launch.is_lasting = true;
  const std::string layers = request_.state_dir + "/layers/";
  if (request_.record.disk.has_value()) {
    launch.disk = backend::StateDisk{disk_path(), request_.record.disk->size};
  } else {
    backend::WritableRoot root;
    for (const std::string& id : request_.record.lowers) {
      root.lowers.push_back(layers + id);
    }
    root.upper = layers + request_.record.upper;
    launch.root = std::move(root);
  }
  if (request_.record.image.has_value()) {
    SBX_ASSIGN(launch.image, image_root_of(request_.record, layers));
  }
  SBX_ASSIGN(const std::unique_ptr<backend::Plan> plan, backend->plan(launch));
  warnings_ = plan->warnings();
  SBX_ASSIGN(std::unique_ptr<backend::Sandbox> sandbox, plan->launch(nullptr));
  const auto init = confine::pid_of(sandbox->exit_fd());
  if (init.ok()) {
    if (auto identity = confine::identity_of(init.value()); identity.ok()) {
      life_.init = std::move(identity).value();
    }
  }
  supervisor_ = std::make_unique<supervise::Supervisor>(
      loop_, std::move(sandbox), [](const supervise::Event& /*event*/) {}, gate_);
  return wait_until_ready();
}

Status Daemon::wait_until_ready() {
  bool is_ready = false;
  supervisor_->when_ready([&] {
    is_ready = true;
    loop_.stop();
  });
  supervisor_->when_broken([this](const Error& error) { broken(error); });
  SBX_TRY(loop_.run());
  supervisor_->when_ready({});
  if (broken_.has_value()) return *broken_;
  if (!is_ready) return Error(Errc::kSystem, "interrupted while the session started");
  return {};
}

}  // namespace sbx::session
