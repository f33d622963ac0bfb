// Loop: one epoll loop for descriptors, timers, signals and children of a single thread.
// It owns no descriptor it watches, never blocks outside run(), and starves no ready watch.
#pragma once

#include <sys/signalfd.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/result.h"
#include "core/base/units.h"

namespace sbx {

class Loop;

/// A registration: its callback can run only while this lives. Move only. May outlive the loop, may
/// be removed or destroyed from inside any callback, its own included.
class [[nodiscard]] Watch {
 public:
  Watch() = default;
  ~Watch() { remove(); }
  Watch(Watch&& other) noexcept;
  Watch& operator=(Watch&& other) noexcept;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Ends the registration; nothing when it has ended. For a descriptor: call it before close().
  void remove();
  /// Whether the callback may still run: false after remove() and after a one-shot has fired.
  bool active() const;
  /// For add_fd only: changes the events. 0 pauses: then not even EPOLLHUP or EPOLLERR is reported.
  void set_events(std::uint32_t events);

 private:
  friend class Loop;
  struct Entry;
  explicit Watch(std::shared_ptr<Entry> entry) : entry_(std::move(entry)) {}

  std::shared_ptr<Entry> entry_;
};

class Loop {
 public:
  Loop();
  /// Restores the signal mask that add_signal changed.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  Loop(Loop&&) = delete;
  Loop& operator=(Loop&&) = delete;

  /// Calls `ready` with the ready events (level-triggered) while any of `events` (EPOLLIN,
  /// EPOLLOUT, ...), EPOLLHUP or EPOLLERR holds. One descriptor may have several watches. A file
  /// that epoll refuses (regular file: EPERM) counts as always ready. Any other refusal is
  /// reported by run().
  Watch add_fd(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready);

  /// Calls `due` once, at least `from_now` later (CLOCK_MONOTONIC; not above zero: on the next
  /// turn).
  Watch add_timer(Millis from_now, std::function<void()> due);

  /// Blocks `signo` for this thread until the loop dies and calls `caught` for each one received.
  /// Blocked signals arrive even where their disposition is "ignore". kSystem when the kernel
  /// refuses.
  Result<Watch> add_signal(int signo, std::function<void(const signalfd_siginfo&)> caught);

  /// Calls `ended` once, when the process behind `pidfd` has ended. Does not reap.
  Watch add_pidfd(int pidfd, std::function<void()> ended);

  /// Runs callbacks until stop(). Blocks. kInternal when nothing is left that could ever wake it.
  Status run();

  /// Makes run() return after the callback that is running; before run(): at once.
  void stop();

 private:
  friend class Watch;
  struct State;

  std::shared_ptr<State> state_;
};

}  // namespace sbx
