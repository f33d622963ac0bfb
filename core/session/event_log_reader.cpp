// Event_log_reader: follows the lines of an event log from file to file; see event_log.h.
//
// Which file comes next: the older one, when it is not the file that was just read (there were
// rotations meanwhile, or the reading began there), else the newer one. The open descriptor keeps
// the inode's number from being used again.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/session/event_log.h"

namespace sbx::session {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10U;

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

}  // namespace

Result<EventLogReader> EventLogReader::open(int dirfd) {
  EventLogReader reader;
  SBX_ASSIGN(reader.dir_, sys::dup(dirfd));
  SBX_ASSIGN(const bool has_older, reader.open_named(kOlderEventLog));
  if (!has_older) {
    SBX_ASSIGN(const bool has_any, reader.open_named(kEventLog));
    (void)has_any;  // the first event may come later
  }
  return reader;
}

Result<bool> EventLogReader::open_named(std::string_view name) {
  Result<UniqueFd> file =
      sys::openat(dir_.get(), std::string(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (!file.ok() && file.error().code() == Errc::kNotFound) return false;
  if (!file.ok()) return std::move(file).error();
  SBX_ASSIGN(const struct stat st, sys::fstat(file.value().get()));
  if (!S_ISREG(st.st_mode)) return Error(Errc::kProtocol, text::cat(name, " is no file"));
  if (file_.valid()) {
    SBX_ASSIGN(const struct stat ours, sys::fstat(file_.get()));
    if (is_same(st, ours)) return false;
  }
  file_ = std::move(file).value();
  buffer_.clear();
  is_overlong_ = false;
  return true;
}

bool EventLogReader::is_current() const {
  if (!file_.valid()) return false;
  const auto named = sys::fstatat(dir_.get(), std::string(kEventLog), AT_SYMLINK_NOFOLLOW);
  const auto ours = sys::fstat(file_.get());
  return named.ok() && ours.ok() && is_same(named.value(), ours.value());
}

Result<bool> EventLogReader::go_on() {
  SBX_ASSIGN(const bool is_older, open_named(kOlderEventLog));
  if (is_older) return true;
  return open_named(kEventLog);
}

Result<std::optional<std::string>> EventLogReader::take_line() {
  while (file_.valid()) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (!std::exchange(is_overlong_, false)) return std::optional(std::move(line));
      continue;
    }
    if (buffer_.size() > kLongestEventLine) {
      buffer_.clear();
      is_overlong_ = true;
    }
    const std::size_t had = buffer_.size();
    buffer_.resize(had + kPiece);
    const Result<std::size_t> got = sys::read(file_.get(), buffer_.data() + had, kPiece);
    buffer_.resize(had + (got.ok() ? got.value() : 0));
    if (!got.ok()) return got.error();
    if (got.value() == 0) break;
  }
  return std::optional<std::string>();
}

Result<std::optional<EventLine>> EventLogReader::next() {
  while (true) {
    SBX_ASSIGN(std::optional<std::string> line, take_line());
    if (!line && !is_current()) {
      // Rotated: somebody may have appended before that. Then the next file.
      SBX_ASSIGN(line, take_line());
      if (!line) {
        SBX_ASSIGN(const bool is_there, go_on());
        if (is_there) continue;
      }
    }
    if (!line) return std::optional<EventLine>();
    std::optional<EventLine> event = parse_event(*line);
    if (event) return event;
  }
}

}  // namespace sbx::session
