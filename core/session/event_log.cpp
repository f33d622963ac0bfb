// Event_log: the writer and the form of a line; see event_log.h.
#include "core/session/event_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

#include "core/base/clock.h"
#include "core/base/scope_exit.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/session/log_time.h"

#include <nlohmann/json.hpp>

namespace sbx::session {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestText = 4096;
constexpr mode_t kMode = 0600;

constexpr std::array<std::string_view, 19> kNames{"created",
                                                  "started",
                                                  "exec_started",
                                                  "exec_exited",
                                                  "exec_failed",
                                                  "paused",
                                                  "resumed",
                                                  "stopped",
                                                  "checkpoint",
                                                  "restored",
                                                  "forked",
                                                  "squashed",
                                                  "service_started",
                                                  "service_exited",
                                                  "service_failed",
                                                  "limit",
                                                  "copied",
                                                  "applied",
                                                  "crashed"};
static_assert(kNames.size() == static_cast<std::size_t>(EventKind::kCrashed) + 1);

struct ToJson {
  Json operator()(const std::string& text) const {
    if (text.size() <= kLongestText) return text;
    const std::string_view cut = std::string_view(text).substr(0, kLongestText);
    // Not in the middle of a character; a text that is no UTF-8 anyway is cut where it is.
    const std::size_t whole = text::utf8_valid_prefix(cut);
    return std::string(cut.substr(0, whole + 4 > cut.size() ? whole : cut.size()));
  }
  template <typename T>
  Json operator()(const T& value) const {
    return value;
  }
};

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

/// flock(2) without waiting for somebody who was stopped while holding it: 50 tries in about 10 ms.
bool try_lock(int fd) {
  constexpr int kTries = 50;
  for (int i = 0; i < kTries; ++i) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 200'000};
    ::nanosleep(&kPause, nullptr);
  }
  return false;
}

/// Whether the file ends in the middle of a line.
bool is_torn(int fd, off_t size) {
  char last = '\n';
  return size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

std::string_view name(EventKind kind) {
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string event_line(EventKind kind,
                       const std::vector<EventField>& fields,
                       std::int64_t realtime_ns) {
  Json json{{"time", format_rfc3339(realtime_ns)}, {"event", name(kind)}};
  for (const EventField& field : fields) {
    json[std::string(field.name)] = std::visit(ToJson{}, field.value);
  }
  std::string line = dump(json);
  while (line.size() > kLongestEventLine) {  // the last ones go first
    auto last = std::prev(json.end());
    if (last.key() == "cut") --last;
    json.erase(last);
    json["cut"] = true;
    line = dump(json);
  }
  return line;
}

std::optional<EventLine> parse_event(std::string_view line) {
  if (line.size() > kLongestEventLine) return std::nullopt;
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto time = json.find("time");
  const auto event = json.find("event");
  if (time == json.end() || event == json.end() || !time->is_string() || !event->is_string()) {
    return std::nullopt;
  }
  const auto time_ns = parse_rfc3339(time->get_ref<const std::string&>());
  if (!time_ns) return std::nullopt;
  return EventLine{
      .time_ns = *time_ns, .event = event->get<std::string>(), .text = std::string(line)};
}

Result<EventLog> EventLog::open(int dirfd, Bytes cap) {
  EventLog log;
  SBX_ASSIGN(log.dir_, sys::dup(dirfd));
  log.cap_ = cap.v;
  return log;
}

Status EventLog::open_file() {
  SBX_ASSIGN(file_,
             sys::openat(dir_.get(),
                         std::string(kEventLog),
                         O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK,
                         kMode));
  return {};
}

Result<bool> EventLog::is_current() const {
  if (!file_.valid()) return false;
  const auto named = sys::fstatat(dir_.get(), std::string(kEventLog), AT_SYMLINK_NOFOLLOW);
  if (!named.ok()) return false;
  SBX_ASSIGN(const struct stat ours, sys::fstat(file_.get()));
  return named.value().st_ino == ours.st_ino && named.value().st_dev == ours.st_dev;
}

Status EventLog::rotate() {
  SBX_TRY(
      sys::renameat(dir_.get(), std::string(kEventLog), dir_.get(), std::string(kOlderEventLog)));
  return open_file();
}

Status EventLog::append(EventKind kind,
                        const std::vector<EventField>& fields,
                        std::optional<std::int64_t> realtime_ns) {
  std::string line = event_line(kind, fields, realtime_ns.value_or(sbx::realtime_ns()));
  bool is_locked = false;
  // Somebody may rotate between the look and the lock; twice in a row is rare, and harmless.
  for (int i = 0; i < 3 && !is_locked; ++i) {
    SBX_ASSIGN(const bool is_fresh, is_current());
    if (!is_fresh) SBX_TRY(open_file());
    if (!try_lock(file_.get())) break;
    SBX_ASSIGN(is_locked, is_current());
  }
  SBX_ASSIGN(struct stat st, sys::fstat(file_.get()));
  const bool is_full =
      st.st_size > 0 && static_cast<std::uint64_t>(st.st_size) + line.size() > cap_;
  if (is_locked && is_full) {
    SBX_TRY(rotate());  // the old file's lock goes with its descriptor
    is_locked = false;
  } else if (is_torn(file_.get(), st.st_size)) {
    line.insert(line.begin(), '\n');
  }
  const ScopeExit unlock([&] {
    if (is_locked) (void)::flock(file_.get(), LOCK_UN);
  });
  SBX_ASSIGN(const std::size_t written, sys::write(file_.get(), line));
  if (written != line.size()) return sys_error("write the events of the session", ENOSPC);
  return {};
}

}  // namespace sbx::session
