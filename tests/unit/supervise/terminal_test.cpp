// terminal_test: raw mode is undone on every way out.
#include "core/supervise/terminal.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "core/base/loop.h"
#include "core/base/unique_fd.h"

#include "tests/support/process.h"
#include "tests/support/pty.h"

namespace sbx::supervise {

namespace {

/// Runs `body` in a child whose controlling terminal is `pty`; its wait status.
int in_child(const test::Pty& pty, const std::function<void(int fd)>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setsid();
    body(pty.slave());
    std::exit(0);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("terminal: the size is that of the terminal, and none where there is no terminal") {
  const test::Pty pty(41, 62);
  const auto size = terminal_size(pty.slave());
  REQUIRE(size.has_value());
  CHECK(size->rows == 41);
  CHECK(size->cols == 62);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  CHECK_FALSE(terminal_size(null.get()).has_value());
  const test::Pty unset(0, 0);
  CHECK_FALSE(terminal_size(unset.slave()).has_value());
}

TEST_CASE("terminal: raw mode is refused on what is no terminal") {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto raw = RawTerminal::enter(null.get());
  REQUIRE_FALSE(raw.ok());
  CHECK(raw.error().code() == Errc::kUsage);
}

TEST_CASE("terminal: raw mode is in force, and restored by the destructor") {
  const test::Pty pty(24, 80);
  const termios before = pty.attributes();
  {
    auto raw = RawTerminal::enter(pty.slave());
    REQUIRE(raw.ok());
    CHECK((pty.attributes().c_lflag & static_cast<tcflag_t>(ICANON | ECHO | ISIG)) == 0U);
    CHECK_FALSE(RawTerminal::enter(pty.slave()).ok());
    const RawTerminal moved = std::move(raw).value();
    CHECK_FALSE(test::same_mode(pty.attributes(), before));
  }
  CHECK(test::same_mode(pty.attributes(), before));
}

TEST_CASE("terminal: restored by exit, by an abort and by a crash") {
  const test::Pty pty(24, 80);
  const termios before = pty.attributes();
  const int exited = in_child(pty, [](int fd) {
    const auto raw = RawTerminal::enter(fd);
    std::exit(raw.ok() ? 7 : 1);
  });
  CHECK(WEXITSTATUS(exited) == 7);
  CHECK(test::same_mode(pty.attributes(), before));
  for (const int signo : {SIGABRT, SIGSEGV}) {
    CAPTURE(signo);
    const int killed = in_child(pty, [signo](int fd) {
      for (const int fatal : {SIGABRT, SIGSEGV}) {
        ::signal(fatal, SIG_DFL);  // doctest has its own
      }
      const auto raw = RawTerminal::enter(fd);
      if (raw.ok()) ::raise(signo);
    });
    CHECK(WIFSIGNALED(killed));
    CHECK(WTERMSIG(killed) == signo);
    CHECK(test::same_mode(pty.attributes(), before));
  }
}

TEST_CASE("terminal: restored when a signal ends the loop") {
  const test::Pty pty(24, 80);
  const termios before = pty.attributes();
  const int status = in_child(pty, [](int fd) {
    Loop loop;
    int caught = 0;
    const auto raw = RawTerminal::enter(fd);
    auto watch = loop.add_signal(SIGTERM, [&](const signalfd_siginfo& info) {
      caught = static_cast<int>(info.ssi_signo);
      loop.stop();
    });
    const Watch timer = loop.add_timer(Millis{10}, [] { ::kill(::getpid(), SIGTERM); });
    if (!raw.ok() || !watch.ok() || !loop.run().ok()) std::exit(1);
    std::exit(128 + caught);
  });
  CHECK(WEXITSTATUS(status) == 143);
  CHECK(test::same_mode(pty.attributes(), before));
}

TEST_CASE("terminal: suspended it is as it was, continued it is raw again") {
  const test::Pty pty(24, 80);
  const termios before = pty.attributes();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setsid();
    auto raw = RawTerminal::enter(pty.slave());
    if (!raw.ok()) ::_exit(1);
    raw.value().suspend();
    ::pause();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, WUNTRACED) == pid);
  REQUIRE(WIFSTOPPED(status));
  CHECK(test::same_mode(pty.attributes(), before));
  ::kill(pid, SIGCONT);
  for (int i = 0; i < 200 && test::same_mode(pty.attributes(), before); ++i) {
    test::pause(0.01);
  }
  CHECK_FALSE(test::same_mode(pty.attributes(), before));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, &status, 0);
}

}  // namespace sbx::supervise
