// Daemon: see daemon.h; its start is in daemon_start.cpp.
#include "core/session/daemon.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/log.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/program.h"
#include "core/session/peer.h"

namespace sbx::session {

namespace {

constexpr mode_t kOwnFile = 0600;
constexpr std::size_t kMostRecords = 256;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

}  // namespace

Daemon::Daemon(DaemonRequest request) : request_(std::move(request)) {}

Daemon::~Daemon() {
  peers_.clear();
  executions_.clear();
}

Status Daemon::write_run_file(RunState state, const std::string& reason) {
  run_.state = state;
  run_.reason = reason;
  (state == RunState::kRunning ? run_.started_ns : run_.ended_ns) = realtime_ns();
  return fs::write_atomic(dir_.get(), "run.json", to_json(run_), kOwnFile);
}

void Daemon::note(EventKind kind, const std::vector<EventField>& fields) {
  if (!events_.has_value()) return;
  const Status noted = events_->append(kind, fields);
  if (!noted.ok()) log::write(Level::kWarn, text::cat("events: ", noted.error().message()));
}

void Daemon::set_state(LifeState state) {
  life_.state = state;
  (void)life_lock_->write(life_);
}

bool Daemon::is_in_use() const {
  return !peers_.empty() ||
         std::any_of(executions_.begin(), executions_.end(), [](const auto& each) {
           return !each.second->has_ended() && each.second->service().empty();
         });
}

void Daemon::watch_idleness() {
  const profile::SessionSettings& settings = request_.profile.session;
  const auto in_use = [this] { return is_in_use(); };
  if (settings.idle_pause.has_value()) {
    idle_pause_.emplace(loop_, *settings.idle_pause, in_use, [this] {
      if (!is_ending()) pause([](const Status& /*paused*/) {});
    });
  }
  if (settings.ttl.has_value()) {
    ttl_.emplace(loop_, *settings.ttl, in_use, [this] {
      has_expired_ = true;
      stop("unused for session.ttl", kDefaultGrace);
    });
  }
}

void Daemon::touch() {
  if (idle_pause_.has_value()) idle_pause_->touch();
  if (ttl_.has_value()) ttl_->touch();
  const std::int64_t now = realtime_ns();
  if (now - life_.used_ns < kNsPerSecond) return;
  life_.used_ns = now;
  (void)life_lock_->write(life_);
}

void Daemon::serve() {
  while (!loop_.run().ok()) {
  }
  (void)sys::unlinkat(runtime_dir_.get(), socket_name_);
}

void Daemon::on_accept() {
  while (true) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    if (!check_peer(socket.get()).ok()) continue;
    const std::uint64_t id = next_peer_++;
    peers_.emplace(id, std::make_unique<Peer>(*this, std::move(socket), [this, id] {
                     const auto gone = peers_.extract(id);  // destroyed at the end of this call
                     touch();
                   }));
  }
}

backend::ExecSpec Daemon::base_spec(bool has_terminal, const std::string& term) const {
  backend::ExecSpec spec;
  const profile::EnvLookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    if (name == "TERM" && !term.empty()) return term;
    return request_.env(name);
  };
  spec.env = run::make_environment(request_.profile,
                                   lookup,
                                   has_terminal,
                                   request_.image_env.has_value() ? &*request_.image_env : nullptr);
  spec.cwd = request_.profile.workdir;
  return spec;
}

Result<std::uint32_t> Daemon::exec(ExecRequest request, std::function<void(UniqueFd)> on_stdin) {
  if (request.service.empty()) touch();
  const std::uint32_t id = next_exec_++;
  ExecContext context{loop_,
                      *supervisor_,
                      execs_dir_.get(),
                      [this](std::uint32_t which) { ended(which); },
                      [this](std::uint32_t which) { executions_.erase(which); }};
  auto execution = std::make_unique<Execution>(std::move(context), id, std::move(request));
  SBX_TRY(execution->start(std::move(on_stdin)));
  note(EventKind::kExecStarted,
       {{"exec", std::uint64_t{id}},
        {"argv", text::join(execution->record().argv, " ")},
        {"detached", execution->is_detached()}});
  executions_.emplace(id, std::move(execution));
  return id;
}

Execution* Daemon::find(std::uint32_t id) {
  const auto at = executions_.find(id);
  return at == executions_.end() ? nullptr : at->second.get();
}

Status Daemon::when_ended(std::uint32_t id, std::function<void(const ExecRecord&)> then) {
  const Execution* const execution = find(id);
  if (execution != nullptr && !execution->has_ended()) {
    waiting_.emplace(id, std::move(then));
    return {};
  }
  if (execution != nullptr) {
    then(execution->record());
    return {};
  }
  auto record = read_exec_record(execs_dir_.get(), id);
  if (!record.ok()) {
    return Error(Errc::kNotFound, text::cat("no program ", id, " in this session"))
        .with_hint(text::cat("sbx session ps ", request_.record.name));
  }
  then(record.value());
  return {};
}

void Daemon::ended(std::uint32_t id) {
  const Execution* const execution = find(id);
  if (execution == nullptr) return;
  if (execution->service().empty()) touch();
  const auto [first, last] = waiting_.equal_range(id);
  std::vector<std::function<void(const ExecRecord&)>> told;
  for (auto at = first; at != last; ++at) {
    told.push_back(std::move(at->second));
  }
  waiting_.erase(first, last);
  for (const auto& then : told) {
    then(execution->record());
  }
  const ExecRecord& record = execution->record();
  note(record.error.empty() ? EventKind::kExecExited : EventKind::kExecFailed,
       {{"exec", std::uint64_t{id}},
        {"cause", record.cause},
        {"exit_status", std::int64_t{record.exit_status}}});
  if (!record.service.empty()) services_.ended(record);
  constexpr std::uint32_t kEvery = 32;
  if (id % kEvery == 0) {
    std::vector<std::uint32_t> running;
    for (const auto& [each, unused] : executions_) {
      running.push_back(each);
    }
    prune_exec_records(execs_dir_.get(), kMostRecords, running);
  }
  if (is_ending()) look_if_all_ended();
}

/// Lets everything stand still or go on, time limits included.
void Daemon::set_still(bool is_still, std::function<void(Status)> then) {
  const auto move_limits = [this](bool stand) {
    for (const auto& [id, execution] : executions_) {
      stand ? execution->pause() : execution->resume();
    }
  };
  if (is_still) {
    move_limits(true);
    supervisor_->freeze([move_limits, then = std::move(then)](const Status& frozen) {
      if (!frozen.ok()) move_limits(false);
      then(frozen);
    });
    return;
  }
  supervisor_->thaw([move_limits, then = std::move(then)](const Status& thawed) {
    if (thawed.ok()) move_limits(false);
    then(thawed);
  });
}

void Daemon::pause(std::function<void(Status)> then) {
  if (is_paused()) return then({});
  set_still(true, [this, then = std::move(then)](const Status& frozen) {
    const bool is_paused_now = frozen.ok() && !is_ending();
    if (is_paused_now) set_state(LifeState::kPaused);
    then(frozen);  // first: somebody waits for it
    if (is_paused_now) note(EventKind::kPaused);
  });
}

void Daemon::resume(std::function<void(Status)> then) {
  if (!is_paused()) return then({});
  const auto resumed = [this, then = std::move(then)](const Status& thawed) {
    const bool runs_now = thawed.ok() && !is_ending();
    if (runs_now) set_state(LifeState::kRunning);
    then(thawed);
    if (!runs_now) return;
    note(EventKind::kResumed);
    touch();
  };
  if (holds_ > 0) return resumed({});  // it goes on when it is released
  set_still(false, resumed);
}

void Daemon::hold(std::function<void(Status)> then) {
  ++holds_;
  set_still(true, std::move(then));
}

void Daemon::release(std::function<void(Status)> then) {
  --holds_;
  if (holds_ > 0 || is_paused() || is_over_) return then({});
  set_still(false, std::move(then));
}

void Daemon::stop(std::string reason, Millis grace) {
  if (is_ending()) return;
  const bool is_still = is_paused() || holds_ > 0;
  stop_reason_ = std::move(reason);
  services_.stop();
  set_state(LifeState::kEnding);
  grace_ = loop_.add_timer(grace, [this] { finish_stop(); });
  const auto ask = [this](const Status& /*thawed*/) {
    (void)supervisor_->signal(0, SIGTERM);
    look_if_all_ended();
  };
  if (is_still) {
    supervisor_->thaw(ask);
  } else {
    ask({});
  }
}

/// Programs that the session's own programs left behind have the grace to end, too.
void Daemon::look_if_all_ended() {
  if (is_over_) return look_if_told();
  const auto left = supervisor_->processes();
  // How the last ones ended may still be on its way to us.
  const bool are_told = std::all_of(executions_.begin(), executions_.end(), [](const auto& each) {
    return each.second->is_main_over();
  });
  if (left.ok() && left.value().empty() && are_told) return finish_stop();
  constexpr Millis kAgain{10};
  look_again_ = loop_.add_timer(kAgain, [this] { look_if_all_ended(); });
}

std::string Daemon::disk_path() const {
  return text::cat(request_.state_dir,
                   "/sessions/",
                   request_.record.name,
                   "/",
                   request_.record.disk.value_or(Disk()).file);
}

/// What the session wrote survives a power failure from here on.
void Daemon::flush_files() const {
  if (request_.record.disk.has_value()) {
    const auto disk = sys::open(disk_path(), O_RDONLY | O_NOFOLLOW);
    if (disk.ok()) (void)sys::fsync(disk.value().get());
    return;
  }
  const std::string upper = text::cat(request_.state_dir, "/layers/", request_.record.upper);
  const auto layer = sys::open(upper, O_RDONLY | O_DIRECTORY);
  if (layer.ok()) (void)::syncfs(layer.value().get());
}

void Daemon::finish_stop() {
  if (is_over_) return;
  is_over_ = true;
  look_again_.remove();
  accept_watch_.remove();
  (void)supervisor_->shutdown();
  flush_files();
  (void)write_run_file(RunState::kStopped, stop_reason_);
  if (!broken_.has_value()) set_state(LifeState::kEnded);
  note(broken_.has_value() ? EventKind::kCrashed : EventKind::kStopped, {{"reason", stop_reason_}});
  // Clients get what their programs wrote, if they take it.
  constexpr Millis kLastDrain{1000};
  grace_ = loop_.add_timer(kLastDrain, [this] { loop_.stop(); });
  const Error why = broken_.value_or(Error(Errc::kSystem, "the session was stopped"));
  for (const auto& [id, execution] : executions_) {
    execution->sandbox_ended(why);
  }
  look_if_told();
}

void Daemon::look_if_told() {
  const bool are_all = std::all_of(executions_.begin(), executions_.end(), [](const auto& each) {
    return each.second->has_ended();
  });
  if (are_all) loop_.stop();
}

/// The sandbox ended without being asked to.
void Daemon::broken(const Error& error) {
  broken_ = error;
  if (life_.state == LifeState::kStarting) return loop_.stop();
  if (!is_ending()) {
    stop_reason_ = error.message();
    set_state(LifeState::kEnding);
  }
  finish_stop();
}

}  // namespace sbx::session
