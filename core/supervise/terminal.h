// Terminal: our own terminal - its size, and raw mode that is undone on every way out.
//
// The inside never gets this terminal: it has a fresh one, this only makes ours transparent.
#pragma once

#include <termios.h>

#include <optional>

#include "core/backend/backend.h"
#include "core/base/result.h"

namespace sbx::supervise {

/// Size of the terminal behind `fd`; nullopt when it is none or says 0x0.
std::optional<backend::TermSize> terminal_size(int fd);

/// Raw mode as long as it lives: keys arrive one by one and unchanged, ^C included. One at a time
/// per process. Restored by the destructor, by exit(3), and before a fatal signal (SEGV, ABRT, ...)
/// takes us away; signals that can be caught are the loop's business, whose end runs destructors.
class RawTerminal {
 public:
  /// kUsage when `fd` is no terminal. Does not own `fd`.
  static Result<RawTerminal> enter(int fd);
  ~RawTerminal();
  RawTerminal(RawTerminal&& other) noexcept;
  RawTerminal& operator=(RawTerminal&& other) = delete;
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  /// Back to how it was; later calls do nothing.
  void restore() noexcept;
  /// For SIGTSTP sent from outside: restores, stops this process, and is raw again once it
  /// continues. Blocks while stopped.
  void suspend();

 private:
  explicit RawTerminal(int fd) : fd_(fd) {}

  int fd_;  // -1: nothing to restore
};

}  // namespace sbx::supervise
