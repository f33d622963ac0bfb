// Tests of the loop: fairness, removal from inside callbacks, one-shots, files, signals.
#include "core/base/loop.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/base/sys.h"

using namespace sbx;

namespace {

/// A pipe with something to read in it.
sys::Pipe ready_pipe() {
  sys::Pipe pipe = sys::pipe().value();
  REQUIRE(sys::write_all(pipe.w.get(), "x").ok());
  return pipe;
}

void drain(int fd) {
  std::array<char, 64> buffer{};
  REQUIRE(sys::read(fd, buffer.data(), buffer.size()).ok());
}

}  // namespace

TEST_CASE("loop: a readable descriptor is reported until it is drained") {
  Loop loop;
  const sys::Pipe pipe = ready_pipe();
  int calls = 0;
  const Watch watch = loop.add_fd(pipe.r.get(), EPOLLIN, [&](std::uint32_t events) {
    CHECK((events & EPOLLIN) != 0);
    if (++calls == 3) {
      drain(pipe.r.get());
      loop.stop();
    }
  });
  CHECK(loop.run().ok());
  CHECK(calls == 3);
}

TEST_CASE("loop: timers run in the order of their deadlines, not of their making") {
  Loop loop;
  std::string order;
  const Watch c = loop.add_timer(Millis{30}, [&] {
    order += 'c';
    loop.stop();
  });
  const Watch a = loop.add_timer(Millis{0}, [&] { order += 'a'; });
  const Watch b = loop.add_timer(Millis{10}, [&] { order += 'b'; });
  const std::int64_t start = monotonic_ns();
  CHECK(loop.run().ok());
  CHECK(order == "abc");
  CHECK(monotonic_ns() - start >= 30'000'000);
  CHECK(!a.active());
}

TEST_CASE("loop: a timer set for ever and one set for the past") {
  Loop loop;
  const Watch never = loop.add_timer(Millis{INT64_MAX}, [] { FAIL("fired"); });
  const Watch past = loop.add_timer(Millis{-5}, [&] { loop.stop(); });
  CHECK(loop.run().ok());
  CHECK(never.active());
}

TEST_CASE("loop: a timer that always renews itself does not starve descriptors") {
  Loop loop;
  const sys::Pipe pipe = ready_pipe();
  Watch timer;
  std::function<void()> again = [&] { timer = loop.add_timer(Millis{0}, again); };
  timer = loop.add_timer(Millis{0}, again);
  const Watch watch = loop.add_fd(pipe.r.get(), EPOLLIN, [&](std::uint32_t) { loop.stop(); });
  CHECK(loop.run().ok());
}

TEST_CASE("loop: a callback may remove itself and others that are ready in the same turn") {
  Loop loop;
  const sys::Pipe one = ready_pipe();
  const sys::Pipe two = ready_pipe();
  Watch a;
  Watch b;
  int calls = 0;
  const auto both_go = [&](std::uint32_t) {
    ++calls;
    a.remove();
    b.remove();
    CHECK(!a.active());
  };
  a = loop.add_fd(one.r.get(), EPOLLIN, both_go);
  b = loop.add_fd(two.r.get(), EPOLLIN, both_go);
  const Watch end = loop.add_timer(Millis{20}, [&] { loop.stop(); });
  CHECK(loop.run().ok());
  CHECK(calls == 1);
}

TEST_CASE("loop: a callback may destroy the object that holds its watch and its own captures") {
  struct Holder {
    Watch watch;
    std::string text = "alive";
  };
  Loop loop;
  const sys::Pipe pipe = ready_pipe();
  auto holder = std::make_unique<Holder>();
  const auto shared = std::make_shared<std::string>("captured");
  holder->watch = loop.add_fd(pipe.r.get(), EPOLLIN, [&, shared](std::uint32_t) {
    holder.reset();
    CHECK(*shared == "captured");
    loop.stop();
  });
  CHECK(loop.run().ok());
}

TEST_CASE("loop: a descriptor number used again in the same turn gets no old event") {
  Loop loop;
  sys::Pipe one = ready_pipe();
  sys::Pipe two = ready_pipe();
  sys::Pipe fresh = sys::pipe().value();
  Watch a;
  Watch b;
  Watch c;
  int calls = 0;
  const auto swap = [&](Watch& other, sys::Pipe& pipe) {
    if (++calls > 1) return;
    other.remove();
    const int number = pipe.r.release();
    REQUIRE(sys::dup_onto(fresh.r.get(), number, true).ok());  // empty: never readable
    pipe.r.reset(number);
    c = loop.add_fd(number, EPOLLIN, [](std::uint32_t) { FAIL("an old event"); });
  };
  a = loop.add_fd(one.r.get(), EPOLLIN, [&](std::uint32_t) {
    drain(one.r.get());
    swap(b, two);
  });
  b = loop.add_fd(two.r.get(), EPOLLIN, [&](std::uint32_t) {
    drain(two.r.get());
    swap(a, one);
  });
  const Watch end = loop.add_timer(Millis{20}, [&] { loop.stop(); });
  CHECK(loop.run().ok());
  CHECK(calls == 1);
}

TEST_CASE("loop: a descriptor closed before its watch does not hide its successor") {
  Loop loop;
  sys::Pipe old = sys::pipe().value();
  const Watch forgotten = loop.add_fd(old.r.get(), EPOLLIN, [](std::uint32_t) {});
  const sys::Pipe pipe = ready_pipe();
  const int number = old.r.get();
  REQUIRE(sys::dup_onto(pipe.r.get(), number, true).ok());  // closes what it was
  const Watch watch = loop.add_fd(number, EPOLLIN, [&](std::uint32_t) { loop.stop(); });
  CHECK(loop.run().ok());
}

TEST_CASE("loop: two watches of one descriptor hear what each asked for") {
  Loop loop;
  const sys::SocketPair pair = sys::socketpair_seqpacket().value();
  REQUIRE(sys::write_all(pair.b.get(), "x").ok());
  std::string heard;
  Watch reader = loop.add_fd(pair.a.get(), EPOLLIN, [&](std::uint32_t events) {
    CHECK(events == EPOLLIN);
    heard += 'r';
    reader.remove();
  });
  Watch writer = loop.add_fd(pair.a.get(), EPOLLOUT, [&](std::uint32_t events) {
    CHECK(events == EPOLLOUT);
    heard += 'w';
    if (heard.size() >= 3) loop.stop();
  });
  CHECK(loop.run().ok());
  CHECK(heard.find('r') != std::string::npos);
  CHECK(writer.active());
}

TEST_CASE("loop: a paused watch does not hear even a hang-up, and hears it when resumed") {
  Loop loop;
  sys::Pipe pipe = sys::pipe().value();
  int calls = 0;
  Watch watch = loop.add_fd(pipe.r.get(), EPOLLIN, [&](std::uint32_t events) {
    ++calls;
    CHECK((events & EPOLLHUP) != 0);
    loop.stop();
  });
  watch.set_events(0);
  pipe.w.reset();
  const std::int64_t start = monotonic_ns();
  const Watch resume = loop.add_timer(Millis{20}, [&] {
    CHECK(calls == 0);
    watch.set_events(EPOLLIN);
  });
  CHECK(loop.run().ok());
  CHECK(calls == 1);
  CHECK(monotonic_ns() - start >= 20'000'000);
}

TEST_CASE("loop: a regular file is always ready and starves neither timers nor pipes") {
  Loop loop;
  const UniqueFd file = sys::open("/proc/self/exe", O_RDONLY).value();
  const sys::Pipe pipe = sys::pipe().value();
  int turns = 0;
  bool was_timer = false;
  Watch watch = loop.add_fd(file.get(), EPOLLIN, [&](std::uint32_t events) {
    CHECK(events == EPOLLIN);
    if (++turns == 10) REQUIRE(sys::write_all(pipe.w.get(), "x").ok());
  });
  const Watch timer = loop.add_timer(Millis{5}, [&] { was_timer = true; });
  const Watch reader = loop.add_fd(pipe.r.get(), EPOLLIN, [&](std::uint32_t) {
    if (was_timer) watch.remove();
    if (was_timer) loop.stop();
  });
  CHECK(loop.run().ok());
  CHECK(turns >= 10);
}

TEST_CASE("loop: among 200 descriptors that stay ready each gets its turn") {
  Loop loop;
  std::vector<sys::Pipe> pipes;
  std::vector<Watch> watches;
  std::vector<int> calls(200, 0);
  int total = 0;
  for (int& count : calls) {
    pipes.push_back(ready_pipe());
    watches.push_back(loop.add_fd(pipes.back().r.get(), EPOLLIN, [&](std::uint32_t) {
      ++count;
      if (++total == 2000) loop.stop();
    }));
  }
  CHECK(loop.run().ok());
  for (const int count : calls) {
    CHECK(count >= 5);
  }
}

TEST_CASE("loop: a signal reaches its watches, an ignored one too") {
  Loop loop;
  int caught = 0;
  void (*handler)(int) = ::signal(SIGUSR2, SIG_IGN);
  const auto on_first = [&](const signalfd_siginfo& info) {
    CHECK(info.ssi_pid == static_cast<std::uint32_t>(::getpid()));
    ++caught;
  };
  const auto on_second = [&](const signalfd_siginfo&) {
    ++caught;
    loop.stop();
  };
  const Watch one = loop.add_signal(SIGUSR1, on_first).value();
  const Watch two = loop.add_signal(SIGUSR2, on_second).value();
  REQUIRE(::kill(::getpid(), SIGUSR1) == 0);
  REQUIRE(::kill(::getpid(), SIGUSR2) == 0);
  CHECK(loop.run().ok());
  CHECK(caught == 2);
  ::signal(SIGUSR2, handler);
  CHECK(!loop.add_signal(12345, [](const signalfd_siginfo&) {}).ok());
}

TEST_CASE("loop: the signal mask is as before once the loop is gone") {
  const auto is_blocked = [] {
    sigset_t mask;
    ::sigprocmask(SIG_SETMASK, nullptr, &mask);
    return sigismember(&mask, SIGUSR1) == 1;
  };
  REQUIRE(!is_blocked());
  {
    Loop loop;
    const Watch watch = loop.add_signal(SIGUSR1, [](const signalfd_siginfo&) {}).value();
    CHECK(is_blocked());
  }
  CHECK(!is_blocked());
}

TEST_CASE("loop: the end of a process is reported once and not reaped") {
  Loop loop;
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(3);
  const UniqueFd pidfd = sys::pidfd_open(pid).value();
  int calls = 0;
  const Watch watch = loop.add_pidfd(pidfd.get(), [&] { ++calls; });
  const Watch end = loop.add_timer(Millis{50}, [&] { loop.stop(); });
  CHECK(loop.run().ok());
  CHECK(calls == 1);
  CHECK(!watch.active());
  int status = 0;
  CHECK(::waitpid(pid, &status, 0) == pid);
  CHECK(WEXITSTATUS(status) == 3);
}

TEST_CASE("loop: run fails when nothing can wake it, or when a descriptor is none") {
  {
    Loop loop;
    CHECK(loop.run().error().code() == Errc::kInternal);
    loop.stop();
    CHECK(loop.run().ok());
  }
  Loop loop;
  const Watch watch = loop.add_fd(0x7ffffff0, EPOLLIN, [](std::uint32_t) {});
  const Status status = loop.run();
  REQUIRE(!status.ok());
  CHECK(status.error().sys_errno() == EBADF);
}

TEST_CASE("loop: a watch may outlive its loop, and a callback may end the loop") {
  std::optional<Loop> loop(std::in_place);
  Watch watch = loop->add_timer(Millis{1000}, [] {});
  const Watch killer = loop->add_timer(Millis{0}, [&] { loop.reset(); });
  Loop* raw = &*loop;
  CHECK(raw->run().ok());
  CHECK(!watch.active());
  watch.set_events(EPOLLIN);
  watch.remove();
}

TEST_CASE("loop: stop inside a callback ends the turn at once, run can be called again") {
  Loop loop;
  const sys::Pipe one = ready_pipe();
  const sys::Pipe two = ready_pipe();
  int calls = 0;
  const auto count = [&](std::uint32_t) {
    ++calls;
    loop.stop();
  };
  const Watch a = loop.add_fd(one.r.get(), EPOLLIN, count);
  const Watch b = loop.add_fd(two.r.get(), EPOLLIN, count);
  CHECK(loop.run().ok());
  CHECK(calls == 1);
  CHECK(loop.run().ok());
  CHECK(calls == 2);
}
