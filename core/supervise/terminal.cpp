// Terminal: raw mode and its undoing.
#include "core/supervise/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "core/base/text.h"

namespace sbx::supervise {

namespace {

// What a signal handler needs has to be static. Set while a RawTerminal lives.
volatile std::sig_atomic_t g_raw_fd = -1;
termios g_saved;

constexpr std::array kFatal{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
std::array<struct sigaction, kFatal.size()> g_old_actions;

/// tcsetattr(3) from a background process group would stop us (SIGTTOU), so that is blocked.
/// Async-signal-safe.
void set_attributes(int fd, const termios& attributes) noexcept {
  sigset_t block;
  sigset_t old;
  ::sigemptyset(&block);
  ::sigaddset(&block, SIGTTOU);
  ::pthread_sigmask(SIG_BLOCK, &block, &old);
  while (::tcsetattr(fd, TCSANOW, &attributes) != 0 && errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void restore_saved() noexcept {
  const int fd = g_raw_fd;
  if (fd < 0) return;
  g_raw_fd = -1;
  set_attributes(fd, g_saved);
}

/// Puts the terminal right and lets the signal do what it would have done. SA_RESETHAND has put the
/// default action back, and returning from a fault repeats it.
void on_fatal(int signo) noexcept {
  restore_saved();
  ::raise(signo);
}

void make_raw(int fd) noexcept {
  termios raw = g_saved;
  ::cfmakeraw(&raw);
  set_attributes(fd, raw);
}

}  // namespace

std::optional<backend::TermSize> terminal_size(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
    return std::nullopt;
  }
  return backend::TermSize{.rows = size.ws_row, .cols = size.ws_col};
}

Result<RawTerminal> RawTerminal::enter(int fd) {
  if (g_raw_fd >= 0) return Error(Errc::kInternal, "a terminal is in raw mode already");
  if (::tcgetattr(fd, &g_saved) != 0) {
    const int err = errno;
    if (err == ENOTTY || err == EBADF) {
      return Error(Errc::kUsage, text::cat("descriptor ", fd, " is not a terminal"));
    }
    return sys_error(text::cat("tcgetattr on descriptor ", fd), err);
  }
  static const bool kRegistered = std::atexit(restore_saved) == 0;
  static_cast<void>(kRegistered);  // without it the destructor still restores
  g_raw_fd = fd;
  struct sigaction action {};
  action.sa_handler = on_fatal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (std::size_t i = 0; i < kFatal.size(); ++i) {
    ::sigaction(kFatal[i], &action, &g_old_actions[i]);
  }
  make_raw(fd);
  return RawTerminal(fd);
}

RawTerminal::~RawTerminal() {
  restore();
}

RawTerminal::RawTerminal(RawTerminal&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

void RawTerminal::restore() noexcept {
  if (std::exchange(fd_, -1) < 0) return;
  restore_saved();
  for (std::size_t i = 0; i < kFatal.size(); ++i) {
    ::sigaction(kFatal[i], &g_old_actions[i], nullptr);
  }
}

void RawTerminal::suspend() {
  if (fd_ < 0) return;
  set_attributes(fd_, g_saved);
  ::raise(SIGSTOP);
  if (::tcgetattr(fd_, &g_saved) == 0) make_raw(fd_);  // the shell may have changed it meanwhile
}

}  // namespace sbx::supervise
