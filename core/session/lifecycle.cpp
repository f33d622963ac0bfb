// Lifecycle: see lifecycle.h.
#include "core/session/lifecycle.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <optional>
#include <set>
#include <utility>

#include "core/backend/backend.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/idmap.h"
#include "core/host/facts.h"
#include "core/host/paths.h"
#include "core/profile/saved.h"
#include "core/session/client.h"
#include "core/session/daemon.h"
#include "core/session/disk.h"
#include "core/session/layers.h"
#include "core/session/root_image.h"

namespace sbx::session {

namespace {

constexpr Millis kEndPatience{10'000};
constexpr Millis kShortPatience{1500};
/// What a supervisor gets, beyond the grace of its programs, to end a session.
constexpr Millis kStopPatience{5000};
/// The same of one that writes what a guest has not written yet.
constexpr Millis kDiskStopPatience{60'000};
constexpr std::size_t kIdLength = 10;
/// Sparse: it takes what is written.
constexpr Bytes kDiskWithoutLimit{std::uint64_t{16} << 30U};

std::string made_up_name() {
  constexpr std::size_t kLength = 8;
  return text::cat("s-", fs::random_name(kLength));
}

Error runs_already(const std::string& session) {
  return Error(Errc::kExists, text::cat("session ", session, " exists and runs already"))
      .with_hint(text::cat("sbx session exec ", session, " -- CMD, or take another name"));
}

/// What fits into the smallest disk is less than it says: a file system needs some of it.
Bytes disk_size(const profile::Profile& profile) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
  constexpr std::uint64_t kLeast = 64 * kMiB;
  const std::uint64_t wanted = profile.limits.disk.value_or(kDiskWithoutLimit).v;
  return Bytes{(std::max(wanted, kLeast) + kMiB - 1) / kMiB * kMiB};
}

/// `profile` takes over what its image says.
Result<Record> new_record(const Store& store, const NewSession& wanted, profile::Profile& profile) {
  SBX_ASSIGN(const backend::Choice choice, backend::choose(profile, store.state_dir()));
  Record record;
  record.name = wanted.name.empty() ? made_up_name() : wanted.name;
  record.id = fs::random_name(kIdLength);
  record.created_ns = realtime_ns();
  record.profile = profile.name;
  SBX_TRY(adopt_image(store.state_dir(), wanted.root, profile, record));
  record.saved_profile = profile::save(profile);
  record.isolation = choice.backend->name;
  record.isolation_reason = choice.reason;
  for (const auto& [key, value] : profile.labels) {
    record.labels.emplace_back(key, value);
  }
  for (const auto& [key, value] : wanted.labels) {
    std::erase_if(record.labels, [&key = key](const auto& each) { return each.first == key; });
    record.labels.emplace_back(key, value);
  }
  if (choice.backend->keeps_disk) {
    record.disk = Disk{"disk", disk_size(profile)};
    return record;
  }
  SBX_TRY(refresh_base(store, profile, record));
  SBX_ASSIGN(record.upper, new_layer(store));
  return record;
}

Result<std::vector<std::string>> launch(DaemonRequest request) {
  if (request.record.image.has_value()) {
    SBX_ASSIGN(request.image_env, image_environment_of(*request.record.image));
  }
  return launch_daemon(request);
}

/// Packages are chosen when a session is made; later starts only use what was kept.
Status check_packages(const Store& store, const profile::Profile& profile) {
  const std::string kept = store.state_dir() + "/packages/";
  for (const profile::Mount& mount : profile.mounts) {
    if (!mount.source.starts_with(kept)) continue;
    if (sys::fstatat(AT_FDCWD, mount.source, AT_SYMLINK_NOFOLLOW).ok()) continue;
    return Error(Errc::kNotFound, text::cat("the session's packages are gone: ", mount.source))
        .with_hint("sbx run with the same packages, source and profile makes them again");
  }
  return {};
}

/// Starts what the lock is held of. The base follows the host: a new one is noted first.
Status launch_locked(const Store& store,
                     const Lease& lease,
                     const profile::Profile& profile,
                     const profile::EnvLookup& env,
                     const Warn& warn) {
  clear_crash(lease.dir());
  SBX_TRY(check_packages(store, profile));
  SBX_ASSIGN(Record record, lease.read());
  sweep_disks(lease.dir(), record);
  {
    SBX_ASSIGN(const workspace::LayersLock held, hold_layers(store));
    const std::vector<std::string> before = record.lowers;
    SBX_TRY(refresh_base(store, profile, record));
    if (record.lowers != before) SBX_TRY(lease.write(record));
  }
  SBX_ASSIGN(const std::vector<std::string> warnings,
             launch({store.state_dir(), std::move(record), profile, env}));
  for (const std::string& warning : warnings) {
    if (warn) warn(warning);
  }
  return {};
}

Status kill_process(const confine::ProcessIdentity& process, int signo) {
  auto pidfd = confine::open_process(process);
  if (!pidfd.ok()) return std::move(pidfd).error();
  if (!pidfd.value().valid()) return {};
  return sys::pidfd_send_signal(pidfd.value().get(), signo);
}

/// The user wanted the end of a supervisor that had to be killed: no crash.
void mark_ended(int dir, Life life) {
  const auto lock = LifeLock::take(dir);
  if (!lock.ok()) return;
  life.state = LifeState::kEnded;
  life.init.reset();
  (void)lock.value().write(life);
}

/// Asks the supervisor over its socket; false: that way is not open.
bool ask_to_stop(const Store& store, const Record& record, Millis grace) {
  auto client = Client::connect(store, record);
  if (!client.ok()) return false;
  Fields fields("stop");
  fields.set("grace_ms", grace.v);
  if (!client.value().send(std::move(fields)).ok()) return false;
  // Whoever wants no grace is about to remove it all: not much is waited for.
  const Millis patience = grace.v == 0              ? kShortPatience
                          : record.disk.has_value() ? kDiskStopPatience
                                                    : kStopPatience;
  const auto closed = client.value().wait_for_close({grace.v + patience.v});
  return closed.ok() && closed.value();
}

/// The socket of a supervisor that was killed. Nobody may be alive in the session.
void drop_socket(const Store& store, const Record& record) {
  const auto runtime = host::open_runtime_dir();
  if (!runtime.ok()) return;
  (void)sys::unlinkat(runtime.value().fd.get(), socket_name(store.state_dir(), record));
}

/// The session as it is when nobody is in the middle of starting or stopping it. Whoever does may
/// have been killed, so its supervisor is what is waited for. One that only refuses does not wait
/// for an end.
Result<Listing> settled(const Store& store, const std::string& session, WhenStopped when_stopped) {
  constexpr Millis kPatience{60'000};
  constexpr timespec kPause{0, 5'000'000};
  const std::int64_t until = monotonic_now().v + kPatience.v;
  while (true) {
    SBX_ASSIGN(Listing now, store.look(session));
    const bool is_to_wait =
        now.state == SessionState::kStarting ||
        (now.state == SessionState::kEnding && when_stopped == WhenStopped::kStart);
    if (!is_to_wait || monotonic_now().v >= until) return now;
    (void)::nanosleep(&kPause, nullptr);
  }
}

Result<run::AddedPackages> add_packages(const NewSession& wanted, profile::Profile& profile) {
  if (!profile.packages.any() && wanted.packages.empty()) return run::AddedPackages();
  if (!wanted.add_packages) return Error(Errc::kUnsupported, "packages cannot be added here");
  return wanted.add_packages(profile, wanted.packages, run::PackagesMode::kMake);
}

}  // namespace

void clear_crash(int dir) {
  std::optional<Life> last;
  const auto alive = look_at_life(dir, &last);
  if (!alive.ok() || alive.value().has_value() || !last.has_value()) return;
  if (!last->init.has_value()) return;
  auto init = confine::open_process(*last->init);
  if (!init.ok() || !init.value().valid()) return;
  (void)sys::pidfd_send_signal(init.value().get(), SIGKILL);
  std::array<pollfd, 1> polled{{{init.value().get(), POLLIN, 0}}};
  (void)sys::poll(polled, kEndPatience);
}

Result<Record> start_new(const Store& store, const NewSession& wanted, const Warn& warn) {
  if (!wanted.name.empty()) SBX_TRY(check_name(wanted.name));
  SBX_ASSIGN(profile::Profile profile, profile::load(wanted.profile));
  // Held until the record names them.
  SBX_ASSIGN(const run::AddedPackages packages, add_packages(wanted, profile));
  SBX_ASSIGN(const workspace::LayersLock held, hold_layers(store));
  SBX_ASSIGN(const Record record, new_record(store, wanted, profile));
  auto lease = store.create(record);
  if (!lease.ok()) {
    if (!record.upper.empty()) drop_new_layer(store, record.upper);
    return std::move(lease).error();
  }
  if (auto events = EventLog::open(lease.value().dir()); events.ok()) {
    (void)events.value().append(EventKind::kCreated, {{"profile", record.profile}});
  }
  auto launched = launch({store.state_dir(), record, profile, wanted.profile.env});
  if (!launched.ok()) {
    (void)wait_for_end(lease.value().dir(), kEndPatience);
    (void)store.remove(std::move(lease).value());
    if (!record.upper.empty()) drop_new_layer(store, record.upper);
    return std::move(launched).error();
  }
  for (const std::string& warning : launched.value()) {
    if (warn) warn(warning);
  }
  return record;
}

Status start_again(const Store& store,
                   const std::string& session,
                   const profile::EnvLookup& env,
                   const Warn& warn) {
  SBX_ASSIGN(const Lease lease, store.lock(session));
  SBX_ASSIGN(const Listing now, store.look(session));
  if (now.is_alive()) {
    if (now.state != SessionState::kEnding) return runs_already(session);
    (void)wait_for_end(lease.dir(), kEndPatience);
  }
  SBX_ASSIGN(const Record record, lease.read());
  SBX_ASSIGN(const profile::Profile profile, profile::restore(record.saved_profile));
  return launch_locked(store, lease, profile, env, warn);
}

Result<Record> ensure_alive(const Store& store,
                            const std::string& session,
                            WhenStopped when_stopped,
                            const profile::EnvLookup& env,
                            const Warn& warn) {
  SBX_ASSIGN(Listing now, settled(store, session, when_stopped));
  const bool is_there = now.state == SessionState::kRunning || now.state == SessionState::kPaused;
  if (!now.problem.empty()) {
    return Error(Errc::kProtocol, text::cat("session ", session, ": ", now.problem));
  }
  if (is_there) return std::move(now.record);
  if (when_stopped == WhenStopped::kRefuse) {
    return Error(Errc::kDenied,
                 text::cat("session ", session, " is ", name(now.state), ", and --no-start given"))
        .with_hint(text::cat("sbx session start ", session));
  }
  Status started = start_again(store, session, env, warn);
  // Somebody else may have been faster.
  if (!started.ok() && started.error().code() != Errc::kExists) return std::move(started).error();
  SBX_ASSIGN(now, settled(store, session, when_stopped));
  return std::move(now.record);
}

Result<bool> stop_locked(const Store& store, const Lease& lease, Millis grace) {
  SBX_ASSIGN(const std::optional<Life> life, look_at_life(lease.dir()));
  const auto record = lease.read();
  if (!life.has_value()) {
    clear_crash(lease.dir());
    if (record.ok()) drop_socket(store, record.value());
    return false;
  }
  if (record.ok() && ask_to_stop(store, record.value(), grace)) {
    SBX_ASSIGN(const bool has_ended, wait_for_end(lease.dir(), kEndPatience));
    if (has_ended) return true;
  }
  // Hung, or its socket is gone. Its sandbox dies with it.
  if (life->supervisor.pid > 0) SBX_TRY(kill_process(life->supervisor, SIGKILL));
  SBX_ASSIGN(const bool has_ended, wait_for_end(lease.dir(), kEndPatience));
  if (!has_ended) {
    return Error(Errc::kTimeout,
                 text::cat("the supervisor of session ", lease.name(), " does not end"))
        .with_hint(text::cat("its pid is ", life->supervisor.pid));
  }
  clear_crash(lease.dir());
  if (record.ok()) drop_socket(store, record.value());
  mark_ended(lease.dir(), *life);
  return true;
}

std::vector<std::string> expired(const Store& store) {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  std::vector<std::string> names;
  const auto all = store.list();
  if (!all.ok()) return names;
  for (const Listing& each : all.value()) {
    if (each.is_alive() || !each.problem.empty() || each.run.ended_ns == 0) continue;
    const auto profile = profile::restore(each.record.saved_profile);
    if (!profile.ok() || !profile.value().session.ttl.has_value()) continue;
    const std::int64_t ttl_ns = profile.value().session.ttl->v * kNsPerMs;
    if (realtime_ns() - each.run.ended_ns >= ttl_ns) names.push_back(each.record.name);
  }
  return names;
}

void remove_expired(const Store& store) {
  for (const std::string& name : expired(store)) {
    (void)remove(store, name, WhenAlive::kRefuse);
  }
}

Result<bool> stop(const Store& store, const std::string& session, Millis grace) {
  SBX_ASSIGN(const Lease lease, store.lock(session));
  return stop_locked(store, lease, grace);
}

Status remove(const Store& store, const std::string& session, WhenAlive when_alive) {
  constexpr Millis kNoGrace{0};
  SBX_ASSIGN(Lease lease, store.lock(session));
  SBX_ASSIGN(const std::optional<Life> life, look_at_life(lease.dir()));
  if (life.has_value() && when_alive == WhenAlive::kRefuse) {
    return Error(Errc::kDenied, text::cat("session ", session, " runs"))
        .with_hint(
            text::cat("sbx session stop ", session, " first, or sbx session rm -f ", session));
  }
  SBX_TRY(stop_locked(store, lease, kNoGrace));
  SBX_TRY(store.remove(std::move(lease)));
  sweep_layers(store);
  return {};
}

}  // namespace sbx::session
