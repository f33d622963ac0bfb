// Log_watch: says on the Loop when files of a directory may have changed. It reads none of them.
#pragma once

#include <functional>

#include "core/base/loop.h"
#include "core/base/unique_fd.h"

namespace sbx::session {

class LogWatch {
 public:
  /// Calls `changed` on the loop soon after a name in `dirfd` was made, moved or removed, or the
  /// file of watch_file() grew, and in any case twice a second, so that nothing depends on the
  /// kernel's word (a network file system, no inotify(7) instance left: then ten times a second).
  /// Never from within the constructor. `loop` must outlive it; it must not move.
  LogWatch(Loop& loop, int dirfd, std::function<void()> changed);
  ~LogWatch() = default;
  LogWatch(const LogWatch&) = delete;
  LogWatch& operator=(const LogWatch&) = delete;

  /// The file whose growth matters from now on, instead of the one before. -1: none.
  void watch_file(int fd);

 private:
  void arm();
  void drain();

  Loop& loop_;
  std::function<void()> changed_;
  UniqueFd inotify_;  // invalid: polling
  int file_watch_ = -1;
  Watch ready_;
  Watch timer_;
};

}  // namespace sbx::session
