// Store: see store.h.
#include "core/session/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/workspace/beneath.h"

namespace sbx::session {

namespace {

constexpr mode_t kOwnDirectory = 0700;
constexpr mode_t kOwnFile = 0600;
constexpr Bytes kLongest{std::uint64_t{16} << 20U};
constexpr const char* kRecordFile = "record.json";
constexpr const char* kRunFile = "run.json";
constexpr const char* kLockFile = "lock";
constexpr std::string_view kNew = ".new-";
constexpr std::string_view kRemoved = ".rm-";

Result<std::vector<std::string>> entries_of(int dir) {
  SBX_ASSIGN(const UniqueFd again, sys::openat(dir, ".", O_RDONLY | O_DIRECTORY));
  SBX_ASSIGN(std::vector<std::string> names, workspace::read_names(again.get()));
  std::sort(names.begin(), names.end());
  return names;
}

Status make_dir(int parent, const std::string& name) {
  Status made = sys::mkdirat(parent, name, kOwnDirectory);
  if (!made.ok() && made.error().code() == Errc::kExists) return {};
  return made;
}

Result<bool> try_lock(int fd) {
  int done = -1;
  do {
    done = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (done != 0 && errno == EINTR);
  if (done == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return sys_error("lock the session");
}

bool is_free(int fd) {
  const Result<bool> locked = try_lock(fd);
  return locked.ok() && locked.value();
}

Result<Record> read_record(int dir) {
  SBX_ASSIGN(const std::string text, fs::read_file_at(dir, kRecordFile, kLongest));
  return parse_record(text);
}

SessionState state_of(const std::optional<Life>& life, const RunFile& run) {
  if (!life.has_value()) {
    return run.state == RunState::kRunning || run.reason == "crashed" ? SessionState::kCrashed
                                                                      : SessionState::kStopped;
  }
  switch (life->state) {
    case LifeState::kStarting:
      return SessionState::kStarting;
    case LifeState::kRunning:
      return SessionState::kRunning;
    case LifeState::kPaused:
      return SessionState::kPaused;
    case LifeState::kEnding:
    case LifeState::kEnded:
      break;
  }
  return SessionState::kEnding;
}

Result<Listing> look_at(int dir, const std::string& session) {
  Listing listing;
  listing.record.name = session;
  std::optional<Life> last;
  SBX_ASSIGN(listing.life, look_at_life(dir, &last));
  auto record = read_record(dir);
  if (record.ok()) {
    listing.record = std::move(record).value();
    listing.record.name = session;
  } else {
    listing.problem = record.error().message();
  }
  const auto run_text = fs::read_file_at(dir, kRunFile, kLongest);
  if (run_text.ok()) {
    auto run = parse_run_file(run_text.value());
    if (run.ok()) listing.run = std::move(run).value();
  }
  if (last.has_value() && last->state == LifeState::kEnded &&
      listing.run.state == RunState::kRunning) {
    listing.run.state = RunState::kStopped;
    listing.run.reason = "stopped";
  }
  listing.state = state_of(listing.life, listing.run);
  return listing;
}

Error no_such(const std::string& session, const std::vector<std::string>& names) {
  Error error(Errc::kNotFound, text::cat("no session \"", text::escape(session), "\""));
  if (const auto near = text::closest(session, names)) {
    return std::move(error).with_hint(text::cat("did you mean ", *near, "?"));
  }
  return std::move(error).with_hint("sbx session ls lists them; sbx session start makes one");
}

}  // namespace

Result<Record> Lease::read() const {
  auto record = read_record(dir_.get());
  if (!record.ok()) return std::move(record).error().prefixed(text::cat("session ", name_));
  record.value().name = name_;
  return record;
}

Status Lease::write(const Record& record) const {
  Status written = fs::write_atomic(dir_.get(), kRecordFile, to_json(record), kOwnFile);
  if (written.ok()) return {};
  return std::move(written).error().prefixed(text::cat("session ", name_));
}

std::string_view name(SessionState state) {
  switch (state) {
    case SessionState::kRunning:
      return "running";
    case SessionState::kPaused:
      return "paused";
    case SessionState::kStarting:
      return "starting";
    case SessionState::kEnding:
      return "ending";
    case SessionState::kStopped:
      return "stopped";
    case SessionState::kCrashed:
      break;
  }
  return "crashed";
}

Result<Store> Store::open(const std::string& state_dir) {
  const fs::OwnerUmask mask;
  SBX_ASSIGN(const UniqueFd state, fs::open_dir(state_dir));
  SBX_TRY(make_dir(state.get(), "sessions"));
  SBX_TRY(make_dir(state.get(), "layers"));
  SBX_TRY(make_dir(state.get(), "images"));  // the sweep of layers reads it, on a full disk too
  SBX_ASSIGN(UniqueFd sessions,
             sys::openat(state.get(), "sessions", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  SBX_ASSIGN(UniqueFd layers,
             sys::openat(state.get(), "layers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return Store(state_dir, std::move(sessions), std::move(layers));
}

std::string Store::layers_dir() const {
  return state_dir_ + "/layers";
}

std::string Store::dir(std::string_view session) const {
  return text::cat(state_dir_, "/sessions/", session);
}

Result<UniqueFd> Store::open_dir(const std::string& session) const {
  SBX_TRY(check_name(session));
  auto opened = sys::openat(sessions_.get(), session, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!opened.ok() && opened.error().code() == Errc::kNotFound) return no_such(session, names());
  return opened;
}

Result<Lease> Store::create(const Record& record, const Fill& fill) const {
  SBX_TRY(check_name(record.name));
  constexpr std::size_t kRandom = 12;
  const fs::OwnerUmask mask;
  const std::string temporary = text::cat(kNew, fs::random_name(kRandom));
  SBX_TRY(sys::mkdirat(sessions_.get(), temporary, kOwnDirectory));
  const auto give_up = [&](Error error) {
    static_cast<void>(fs::remove_tree(sessions_.get(), temporary));
    return error;
  };
  auto dir = sys::openat(sessions_.get(), temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!dir.ok()) return give_up(std::move(dir).error());
  auto lock = sys::openat(dir.value().get(), kLockFile, O_RDWR | O_CREAT | O_EXCL, kOwnFile);
  if (!lock.ok()) return give_up(std::move(lock).error());
  auto locked = try_lock(lock.value().get());
  if (!locked.ok()) return give_up(std::move(locked).error());
  Lease lease(record.name, std::move(dir).value(), std::move(lock).value());
  if (Status made = make_dir(lease.dir(), "execs"); !made.ok()) {
    return give_up(std::move(made).error());
  }
  Record whole = record;
  if (fill) {
    if (Status filled = fill(lease.dir(), whole); !filled.ok()) {
      return give_up(std::move(filled).error());
    }
  }
  if (Status written = lease.write(whole); !written.ok()) {
    return give_up(std::move(written).error());
  }
  Status claimed =
      sys::renameat(sessions_.get(), temporary, sessions_.get(), record.name, RENAME_NOREPLACE);
  if (!claimed.ok()) {
    if (claimed.error().code() != Errc::kExists) return give_up(std::move(claimed).error());
    return give_up(Error(Errc::kExists, text::cat("session ", record.name, " exists already"))
                       .with_hint(text::cat("take another name, or sbx session rm ", record.name)));
  }
  SBX_TRY(sys::fsync(sessions_.get()));
  return lease;
}

Result<Lease> Store::lock(const std::string& session, Millis patience) const {
  constexpr timespec kPause{0, 5'000'000};
  const std::int64_t until = monotonic_now().v + patience.v;
  while (true) {
    SBX_ASSIGN(UniqueFd dir, open_dir(session));
    SBX_ASSIGN(UniqueFd lock,
               sys::openat(dir.get(), kLockFile, O_RDWR | O_CREAT | O_NOFOLLOW, kOwnFile));
    SBX_ASSIGN(const bool is_ours, try_lock(lock.get()));
    if (is_ours) {
      // Removed, or made anew, while we waited?
      const auto now = sys::fstatat(sessions_.get(), session, AT_SYMLINK_NOFOLLOW);
      SBX_ASSIGN(const struct stat held, sys::fstat(dir.get()));
      if (now.ok() && now.value().st_ino == held.st_ino && now.value().st_dev == held.st_dev) {
        return Lease(session, std::move(dir), std::move(lock));
      }
      continue;
    }
    if (monotonic_now().v >= until) {
      return Error(Errc::kTimeout, text::cat("another command is working on session ", session))
          .with_hint("wait for it to end; if it hangs, its pid is in: fuser " + this->dir(session) +
                     "/lock");
    }
    (void)::nanosleep(&kPause, nullptr);
  }
}

Result<Listing> Store::look(const std::string& session) const {
  SBX_ASSIGN(const UniqueFd dir, open_dir(session));
  return look_at(dir.get(), session);
}

std::vector<std::string> Store::names() const {
  auto entries = entries_of(sessions_.get());
  if (!entries.ok()) return {};
  std::vector<std::string> names = std::move(entries).value();
  std::erase_if(names, [](const std::string& name) { return !check_name(name).ok(); });
  return names;
}

Result<std::vector<Listing>> Store::list() const {
  SBX_ASSIGN(const std::vector<std::string> entries, entries_of(sessions_.get()));
  std::vector<Listing> all;
  for (const std::string& session : entries) {
    if (!check_name(session).ok()) continue;
    auto dir = open_dir(session);
    if (!dir.ok()) continue;  // removed meanwhile
    SBX_ASSIGN(Listing listing, look_at(dir.value().get(), session));
    all.push_back(std::move(listing));
  }
  return all;
}

Status Store::remove(Lease lease) const {
  constexpr std::size_t kRandom = 12;
  const std::string gone = text::cat(kRemoved, fs::random_name(kRandom));
  SBX_TRY(sys::renameat(sessions_.get(), lease.name(), sessions_.get(), gone));
  return fs::remove_tree(sessions_.get(), gone);
}

std::vector<std::string> Store::leftovers(bool is_any_age) const {
  auto entries = entries_of(sessions_.get());
  if (!entries.ok()) return {};
  std::vector<std::string> found = std::move(entries).value();
  std::erase_if(found, [&](const std::string& name) {
    const bool is_new = name.starts_with(kNew) && (is_any_age || is_abandoned(name));
    return !name.starts_with(kRemoved) && !is_new;
  });
  return found;
}

/// Whoever makes one holds its lock, but for the first moment.
bool Store::is_abandoned(const std::string& half_made) const {
  constexpr std::int64_t kYoung = 10;
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const auto dir = sys::openat(sessions_.get(), half_made, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!dir.ok()) return false;
  const auto info = sys::fstat(dir.value().get());
  const std::int64_t now_s = realtime_ns() / kNsPerSecond;
  if (!info.ok() || info.value().st_mtim.tv_sec + kYoung > now_s) return false;
  const auto lock = sys::openat(dir.value().get(), kLockFile, O_RDWR | O_NOFOLLOW);
  return !lock.ok() || is_free(lock.value().get());
}

Status Store::remove_leftover(const std::string& name) const {
  return fs::remove_tree(sessions_.get(), name);
}

void Store::clear_leftovers() const {
  for (const std::string& name : leftovers()) {
    static_cast<void>(remove_leftover(name));
  }
}

Result<std::vector<std::string>> Store::used_layers() const {
  SBX_ASSIGN(const std::vector<std::string> entries, entries_of(sessions_.get()));
  std::vector<std::string> used;
  for (const std::string& session : entries) {
    if (session.starts_with(kRemoved)) continue;
    auto dir = sys::openat(sessions_.get(), session, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!dir.ok()) {
      if (dir.error().code() == Errc::kNotFound) continue;
      return std::move(dir).error();
    }
    auto record = read_record(dir.value().get());
    if (!record.ok()) {
      if (record.error().code() == Errc::kNotFound && session.starts_with(kNew)) continue;
      return std::move(record).error().prefixed(text::cat("session ", session));
    }
    for (std::string& id : layers_of(record.value())) {
      used.push_back(std::move(id));
    }
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

}  // namespace sbx::session
