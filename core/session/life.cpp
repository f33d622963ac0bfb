// Life: see life.h.
#include "core/session/life.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/run/state_json.h"

#include <nlohmann/json.hpp>

namespace sbx::session {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFile = "life";
constexpr mode_t kOwnFile = 0600;

std::string_view word(LifeState state) {
  switch (state) {
    case LifeState::kStarting:
      return "starting";
    case LifeState::kRunning:
      return "running";
    case LifeState::kPaused:
      return "paused";
    case LifeState::kEnding:
      return "ending";
    case LifeState::kEnded:
      break;
  }
  return "ended";
}

std::optional<LifeState> state_of(std::string_view text) {
  for (const LifeState each : {LifeState::kStarting,
                               LifeState::kRunning,
                               LifeState::kPaused,
                               LifeState::kEnding,
                               LifeState::kEnded}) {
    if (word(each) == text) return each;
  }
  return std::nullopt;
}

/// True: we have it. False: somebody else.
Result<bool> try_lock(int fd) {
  int done = -1;
  do {
    done = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (done != 0 && errno == EINTR);
  if (done == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return sys_error("lock the session's life file");
}

std::optional<Life> read_text(int fd) {
  std::string text(kLifeTextSize, '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  if (got <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(got));
  return parse_life(text);
}

}  // namespace

std::string life_text(const Life& life) {
  Json json{{"format", run::kStateFormat},
            {"state", word(life.state)},
            {"supervisor", run::identity_json<Json>(life.supervisor)},
            {"init", life.init ? run::identity_json<Json>(*life.init) : Json(nullptr)},
            {"id", life.id},
            {"protocol", life.protocol},
            {"version", life.version},
            {"since_ns", life.since_ns},
            {"used_ns", life.used_ns}};
  std::string text = run::dump_line(json);
  text.resize(kLifeTextSize - 1, ' ');
  return text + "\n";
}

std::optional<Life> parse_life(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  run::Reader<Json> reader(json);
  Life life;
  std::string state;
  reader.text("state", state);
  reader.text("id", life.id);
  reader.number("protocol", life.protocol);
  reader.text("version", life.version);
  reader.number("since_ns", life.since_ns);
  reader.number("used_ns", life.used_ns);
  const auto supervisor = run::read_identity(reader.find("supervisor"));
  const auto known = state_of(state);
  if (!reader.ok() || !supervisor || !known) return std::nullopt;
  life.supervisor = *supervisor;
  life.state = *known;
  life.init = run::read_identity(reader.find("init"));
  return life;
}

Result<LifeLock> LifeLock::take(int dir) {
  SBX_ASSIGN(UniqueFd fd, sys::openat(dir, kFile, O_RDWR | O_CREAT | O_NOFOLLOW, kOwnFile));
  // Somebody who looks holds it for a moment.
  constexpr int kTries = 100;
  constexpr timespec kPause{0, 1'000'000};
  for (int i = 0; i < kTries; ++i) {
    SBX_ASSIGN(const bool is_ours, try_lock(fd.get()));
    if (is_ours) return LifeLock(std::move(fd));
    (void)::nanosleep(&kPause, nullptr);
  }
  return Error(Errc::kExists, "the session has a living supervisor");
}

Status LifeLock::write(const Life& life) const {
  const std::string text = life_text(life);
  if (::pwrite(fd_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return sys_error("write the session's life file");
  }
  return {};
}

Result<std::optional<Life>> look_at_life(int dir, std::optional<Life>* last) {
  auto fd = sys::openat(dir, kFile, O_RDONLY | O_NOFOLLOW);
  if (!fd.ok()) {
    if (fd.error().code() == Errc::kNotFound) return std::optional<Life>();
    return std::move(fd).error();
  }
  // A shared lock, so that two who look do not take each other for a supervisor.
  int done = -1;
  do {
    done = ::flock(fd.value().get(), LOCK_SH | LOCK_NB);
  } while (done != 0 && errno == EINTR);
  if (done != 0 && errno != EWOULDBLOCK) return sys_error("lock the session's life file");
  std::optional<Life> life = read_text(fd.value().get());
  if (done == 0) {
    if (last != nullptr) *last = std::move(life);
    return std::optional<Life>();
  }
  // Its first words may not be written yet.
  return life.has_value() ? life : std::optional<Life>(Life{});
}

Result<bool> wait_for_end(int dir, Millis patience) {
  constexpr timespec kPause{0, 2'000'000};
  const std::int64_t until = monotonic_now().v + patience.v;
  while (true) {
    SBX_ASSIGN(const std::optional<Life> life, look_at_life(dir));
    if (!life.has_value()) return true;
    if (monotonic_now().v >= until) return false;
    (void)::nanosleep(&kPause, nullptr);
  }
}

}  // namespace sbx::session
