// Tests of the system call wrappers: close-on-exec, interruption, caps, error texts.
#include "core/base/sys.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/base/fs.h"

using namespace sbx;

namespace {

bool is_cloexec(const UniqueFd& fd) {
  return (::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0;
}

/// Interrupts this process every millisecond while it lives, without SA_RESTART.
class Interruptions {
 public:
  Interruptions() {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &action, &before_);
    const itimerval every{{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &every, nullptr);
  }
  ~Interruptions() {
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace

TEST_CASE("sys: every descriptor is close-on-exec") {
  CHECK(is_cloexec(sys::open("/dev/null", O_RDONLY).value()));
  CHECK(is_cloexec(sys::openat2(AT_FDCWD, "/dev/null", O_RDONLY, 0, 0).value()));
  CHECK(is_cloexec(sys::dup(0).value()));
  CHECK(is_cloexec(sys::memfd_create("test").value()));
  CHECK(is_cloexec(sys::pidfd_open(::getpid()).value()));
  const sys::Pipe pipe = sys::pipe().value();
  CHECK(is_cloexec(pipe.r));
  CHECK(is_cloexec(pipe.w));
  const sys::SocketPair pair = sys::socketpair_seqpacket().value();
  CHECK(is_cloexec(pair.a));
  CHECK(is_cloexec(pair.b));
}

TEST_CASE("sys: an error names the call and the path, and keeps errno") {
  const Result<UniqueFd> opened = sys::open("/nonexistent/x", O_RDONLY);
  REQUIRE(!opened.ok());
  CHECK(opened.error().sys_errno() == ENOENT);
  CHECK(opened.error().message() == "open /nonexistent/x: No such file or directory");
  CHECK(sys::unlinkat(AT_FDCWD, "/nonexistent/x").error().code() == Errc::kNotFound);
}

TEST_CASE("sys: a read that a signal interrupts goes on") {
  const sys::Pipe pipe = sys::pipe().value();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::usleep(50'000);
    ::_exit(::write(pipe.w.get(), "x", 1) == 1 ? 0 : 1);
  }
  std::array<char, 4> buffer{};
  {
    const Interruptions interruptions;
    const Result<std::size_t> size = sys::read(pipe.r.get(), buffer.data(), buffer.size());
    REQUIRE(size.ok());
    CHECK(size.value() == 1);
  }
  ::waitpid(pid, nullptr, 0);
}

TEST_CASE("sys: poll waits its whole time although signals interrupt it") {
  const sys::Pipe pipe = sys::pipe().value();
  std::array fds{pollfd{pipe.r.get(), POLLIN, 0}};
  const Interruptions interruptions;
  const std::int64_t start = monotonic_ns();
  CHECK(sys::poll(fds, Millis{50}).value() == 0);
  CHECK(monotonic_ns() - start >= 49'000'000);
}

TEST_CASE("sys: write_all waits for a full non-blocking pipe") {
  sys::Pipe pipe = sys::pipe(O_NONBLOCK).value();
  const std::string data(300'000, 'x');
  const pid_t pid = ::fork();
  if (pid == 0) {
    pipe.w.reset();
    const Result<std::string> got = sys::read_all(pipe.r.get(), Bytes{1 << 20});
    ::_exit(got.ok() && got.value() == data ? 0 : 1);
  }
  pipe.r.reset();
  CHECK(sys::write_all(pipe.w.get(), data).ok());
  pipe.w.reset();
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("sys: read_all stops at the cap") {
  const UniqueFd fd = sys::memfd_create("test").value();
  REQUIRE(sys::write_all(fd.get(), std::string(5000, 'x')).ok());
  const auto read_with_cap = [&](std::uint64_t cap) {
    ::lseek(fd.get(), 0, SEEK_SET);
    return sys::read_all(fd.get(), Bytes{cap});
  };
  CHECK(read_with_cap(5000).value().size() == 5000);
  CHECK(read_with_cap(4999).error().code() == Errc::kLimit);
  const UniqueFd endless = sys::open("/dev/zero", O_RDONLY).value();
  CHECK(sys::read_all(endless.get(), Bytes{100'000}).error().code() == Errc::kLimit);
}

TEST_CASE("sys: waitid's answer becomes wait's status") {
  const auto status_of = [](auto act) {
    const pid_t pid = ::fork();
    if (pid == 0) act();
    const UniqueFd pidfd = sys::pidfd_open(pid).value();
    return sys::wait_status(sys::waitid_pidfd(pidfd.get(), WEXITED).value());
  };
  const int exited = status_of([] { ::_exit(7); });
  CHECK(WIFEXITED(exited));
  CHECK(WEXITSTATUS(exited) == 7);
  const int killed = status_of([] { ::kill(::getpid(), SIGKILL); });
  CHECK(WIFSIGNALED(killed));
  CHECK(WTERMSIG(killed) == SIGKILL);
}

TEST_CASE("sys: non-blocking mode can be set and taken back") {
  const sys::Pipe pipe = sys::pipe().value();
  CHECK(sys::set_nonblocking(pipe.r.get(), true).ok());
  std::array<char, 1> buffer{};
  CHECK(sys::read(pipe.r.get(), buffer.data(), 1).error().sys_errno() == EAGAIN);
  CHECK(sys::set_nonblocking(pipe.r.get(), false).ok());
  CHECK((::fcntl(pipe.r.get(), F_GETFL) & O_NONBLOCK) == 0);
  CHECK(sys::set_pipe_size(pipe.r.get(), 1 << 16) >= 1 << 16);
  CHECK(sys::set_pipe_size(0x7fffffff, 1 << 16) == 0);
}

TEST_CASE("sys: a file cannot be made larger than any file can be") {
  const UniqueFd fd = sys::memfd_create("test").value();
  CHECK(sys::ftruncate(fd.get(), Bytes{~0ULL}).error().code() == Errc::kLimit);
  CHECK(sys::ftruncate(fd.get(), Bytes{4096}).ok());
  CHECK(sys::fstat(fd.get()).value().st_size == 4096);
}

TEST_CASE("sys: links are read whole") {
  const fs::TempDir dir = fs::TempDir::create("/tmp", "sbx-test-").value();
  const std::string target(4000, 't');
  REQUIRE(sys::symlinkat(target, dir.fd(), "link").ok());
  CHECK(sys::readlinkat(dir.fd(), "link").value() == target);
  CHECK(sys::readlinkat(dir.fd(), "none").error().code() == Errc::kNotFound);
}
