// Log_watch: see log_watch.h.
#include "core/session/log_watch.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "core/base/text.h"

namespace sbx::session {
namespace {

constexpr Millis kWatchedEvery{500};
constexpr Millis kPolledEvery{100};

/// A name for an open file that inotify takes.
std::string path_of(int fd) {
  return text::cat("/proc/self/fd/", fd);
}

}  // namespace

LogWatch::LogWatch(Loop& loop, int dirfd, std::function<void()> changed)
    : loop_(loop), changed_(std::move(changed)) {
  UniqueFd inotify(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  const std::uint32_t names = IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR;
  if (inotify.valid() && ::inotify_add_watch(inotify.get(), path_of(dirfd).c_str(), names) >= 0) {
    inotify_ = std::move(inotify);
    ready_ = loop_.add_fd(inotify_.get(), EPOLLIN, [this](std::uint32_t) {
      drain();
      changed_();
    });
  }
  arm();
}

void LogWatch::arm() {
  timer_ = loop_.add_timer(inotify_.valid() ? kWatchedEvery : kPolledEvery, [this] {
    arm();
    changed_();
  });
}

void LogWatch::drain() {
  std::array<char, 4096> events{};
  while (::read(inotify_.get(), events.data(), events.size()) > 0) {
  }
}

void LogWatch::watch_file(int fd) {
  if (!inotify_.valid()) return;
  // The same file gives the same number, so this costs one call and loses nothing.
  const int watch =
      fd < 0 ? -1 : ::inotify_add_watch(inotify_.get(), path_of(fd).c_str(), IN_MODIFY);
  if (watch == file_watch_) return;
  if (file_watch_ >= 0) (void)::inotify_rm_watch(inotify_.get(), file_watch_);
  file_watch_ = watch;
}

}  // namespace sbx::session
