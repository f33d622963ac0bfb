// relay_test: every kind of sink and source that a caller's shell can hand to a relay.
#include "core/supervise/relay.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/loop.h"
#include "core/base/sys.h"

namespace sbx::supervise {

namespace {

struct IgnoreSigpipe {
  IgnoreSigpipe() { ::signal(SIGPIPE, SIG_IGN); }
};
const IgnoreSigpipe kIgnoreSigpipe;

/// Bytes that no shift or swap leaves equal.
std::string pattern(std::size_t size) {
  std::string data(size, '\0');
  std::uint32_t x = 12345;
  for (char& c : data) {
    x = x * 1664525U + 1013904223U;
    c = static_cast<char>(x >> 24U);
  }
  return data;
}

struct Pair {
  UniqueFd r, w;
};

Pair make_pipe() {
  auto made = sys::pipe();
  REQUIRE(made.ok());
  return {std::move(made.value().r), std::move(made.value().w)};
}

Pair make_socketpair() {
  std::array<int, 2> fds{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

/// A raw pseudo terminal: r is the master, w the slave.
Pair make_pty() {
  int master = -1;
  int slave = -1;
  termios raw{};
  ::cfmakeraw(&raw);
  REQUIRE(::openpty(&master, &slave, nullptr, &raw, nullptr) == 0);
  return {UniqueFd(master), UniqueFd(slave)};
}

void write_and_close(UniqueFd fd, const std::string& data) {
  static_cast<void>(sys::write_all(fd.get(), data));
}

std::string read_to_end(int fd) {
  std::string all;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n <= 0) return all;
    all.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

/// Runs the loop until the relay is done, at most `seconds`. True when it was done.
bool run_until_done(Loop& loop, const std::function<bool()>& is_done, int seconds = 60) {
  bool timed_out = false;
  const Watch timer = loop.add_timer(Millis{std::int64_t{seconds} * 1000}, [&] {
    timed_out = true;
    loop.stop();
  });
  while (!is_done() && !timed_out) {
    if (!loop.run().ok()) return false;
  }
  return !timed_out;
}

bool run_to_end(Loop& loop, const Relay& relay, int seconds = 60) {
  return run_until_done(
      loop, [&] { return !relay.running(); }, seconds);
}

/// A file of our own in the temporary directory.
struct TempFile {
  std::string path = "/tmp/sbx-relay-test-" + fs::random_name(8);
  TempFile() = default;
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() { ::unlink(path.c_str()); }
  std::string content() const {
    auto read = fs::read_file(path, Bytes{std::uint64_t{1} << 32U});
    REQUIRE(read.ok());
    return read.value();
  }
};

/// Relays `data` from a pipe to `sink` and returns the relay after its end.
std::unique_ptr<Relay> relay_all(const std::string& data,
                                 int sink,
                                 std::optional<Bytes> limit = std::nullopt) {
  Loop loop;
  Pair in = make_pipe();
  std::thread writer([&] { write_and_close(std::move(in.w), data); });
  auto relay = Relay::to_fd(loop, std::move(in.r), sink, limit, [&] { loop.stop(); });
  CHECK(run_to_end(loop, *relay));
  relay->stop();
  writer.join();
  return relay;
}

}  // namespace

TEST_CASE("relay: a pipe gets all bytes in order, whatever their size") {
  for (const std::size_t size : {std::size_t{0},
                                 std::size_t{1},
                                 std::size_t{4096},
                                 std::size_t{65537},
                                 std::size_t{10'000'001}}) {
    CAPTURE(size);
    const std::string data = pattern(size);
    Pair out = make_pipe();
    std::string got;
    std::thread reader([&] { got = read_to_end(out.r.get()); });
    const auto relay = relay_all(data, out.w.get());
    out.w.reset();
    reader.join();
    CHECK(relay->state() == RelayState::kEof);
    CHECK(relay->bytes() == size);
    CHECK_FALSE(relay->truncated());
    CHECK(got == data);
  }
}

TEST_CASE("relay: the flags of a borrowed pipe are left as they were") {
  Pair out = make_pipe();
  const int before = ::fcntl(out.w.get(), F_GETFL);
  const auto relay = relay_all("hello", out.w.get());
  CHECK(::fcntl(out.w.get(), F_GETFL) == before);
  CHECK((before & O_NONBLOCK) == 0);
}

TEST_CASE("relay: a regular file, also one that others append to") {
  for (const int flags : {0, O_APPEND}) {
    CAPTURE(flags);
    TempFile file;
    const UniqueFd fd(::open(file.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600));
    REQUIRE(sys::write_all(fd.get(), "before\n").ok());
    const std::string data = pattern(3'000'000);
    const auto relay = relay_all(data, fd.get());
    CHECK(relay->state() == RelayState::kEof);
    REQUIRE(sys::write_all(fd.get(), "after\n").ok());
    CHECK(file.content() == "before\n" + data + "after\n");
  }
}

TEST_CASE("relay: a socket") {
  Pair out = make_socketpair();
  const std::string data = pattern(3'000'000);
  std::string got;
  std::thread reader([&] { got = read_to_end(out.r.get()); });
  const auto relay = relay_all(data, out.w.get());
  out.w.reset();
  reader.join();
  CHECK(relay->state() == RelayState::kEof);
  CHECK(got == data);
}

TEST_CASE("relay: a terminal that is read slowly") {
  Pair out = make_pty();
  const std::string data = pattern(200'000);
  std::string got;
  std::thread reader([&] {
    std::array<char, 1000> buffer{};
    while (got.size() < data.size()) {
      const ssize_t n = ::read(out.r.get(), buffer.data(), buffer.size());
      if (n <= 0) break;
      got.append(buffer.data(), static_cast<std::size_t>(n));
    }
  });
  const auto relay = relay_all(data, out.w.get());
  reader.join();
  CHECK(relay->state() == RelayState::kEof);
  CHECK(got == data);
}

TEST_CASE("relay: devices: /dev/null takes all, /dev/full says why it does not") {
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  CHECK(relay_all(pattern(1'000'000), null.get())->state() == RelayState::kEof);

  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const auto relay = relay_all("x", full.get());
  CHECK(relay->state() == RelayState::kSinkFailed);
  REQUIRE(relay->error().has_value());
  CHECK(relay->error()->sys_errno() == ENOSPC);
}

TEST_CASE("relay: a sink that is not open for writing is an error, not a hang") {
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto relay = relay_all("x", null.get());
  CHECK(relay->state() == RelayState::kSinkFailed);
  CHECK(relay->error()->sys_errno() == EBADF);
}

TEST_CASE("relay: the writer gets EPIPE when the reader has gone before") {
  Pair out = make_pipe();
  out.r.reset();
  const auto relay = relay_all(pattern(1'000'000), out.w.get());
  CHECK(relay->state() == RelayState::kSinkClosed);
}

TEST_CASE("relay: the reader's end closes the source at once, also while nothing is written") {
  for (const bool is_socket : {false, true}) {
    CAPTURE(is_socket);
    Loop loop;
    Pair in = make_pipe();
    Pair out = is_socket ? make_socketpair() : make_pipe();
    auto relay =
        Relay::to_fd(loop, std::move(in.r), out.w.get(), std::nullopt, [&] { loop.stop(); });
    const Watch later = loop.add_timer(Millis{20}, [&] { out.r.reset(); });
    REQUIRE(run_to_end(loop, *relay, 10));
    CHECK(relay->state() == RelayState::kSinkClosed);
    CHECK(::write(in.w.get(), "x", 1) == -1);
    CHECK(errno == EPIPE);
  }
}

TEST_CASE("relay: a reader that does not read holds up neither the loop nor another relay") {
  Loop loop;
  Pair stuck_in = make_pipe();
  Pair stuck_out = make_pipe();
  Pair in = make_pipe();
  Pair out = make_pipe();
  std::thread writer([&] { write_and_close(std::move(stuck_in.w), pattern(4'000'000)); });
  auto stuck = Relay::to_fd(loop, std::move(stuck_in.r), stuck_out.w.get(), std::nullopt, {});
  bool is_done = false;
  auto other = Relay::to_fd(loop, std::move(in.r), out.w.get(), std::nullopt, [&] {
    is_done = true;
    loop.stop();
  });
  const Watch later =
      loop.add_timer(Millis{100}, [&] { write_and_close(std::move(in.w), "through"); });
  REQUIRE(run_until_done(
      loop, [&] { return is_done; }, 10));
  CHECK(stuck->running());
  out.w.reset();
  CHECK(read_to_end(out.r.get()) == "through");
  stuck->stop();
  writer.join();
}

TEST_CASE("relay: a pipe that cannot be opened again is written to in small pieces") {
  // As with somebody else's pipe: an inaccessible one. Only an unprivileged process is refused.
  const pid_t pid = ::fork();
  if (pid == 0) {
    Loop loop;
    Pair out = make_pipe();
    if (::fchmod(out.w.get(), 0) != 0) ::_exit(2);
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    Pair in = make_pty();  // a terminal's master, so that splice is no way out
    const std::string data = pattern(300'000);
    std::string got;
    std::thread writer([&] {
      write_and_close(UniqueFd(::fcntl(in.w.get(), F_DUPFD_CLOEXEC, 3)), data);
      in.w.reset();
    });
    std::thread reader([&] {
      while (got.size() < data.size()) {
        std::array<char, 777> buffer{};
        const ssize_t n = ::read(out.r.get(), buffer.data(), buffer.size());
        if (n <= 0) break;
        got.append(buffer.data(), static_cast<std::size_t>(n));
      }
    });
    auto relay =
        Relay::to_fd(loop, std::move(in.r), out.w.get(), std::nullopt, [&] { loop.stop(); });
    const bool done = run_to_end(loop, *relay, 20);
    out.w.reset();
    writer.join();
    reader.join();
    ::_exit(done && got == data ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
}

TEST_CASE("relay: past the limit nothing more is passed on and the writer is not held up") {
  for (const bool is_file : {false, true}) {
    CAPTURE(is_file);
    TempFile file;
    Pair out = make_pipe();
    if (is_file) out.w = UniqueFd(::open(file.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string data = pattern(5'000'000);
    std::string got;
    std::thread reader([&] {
      if (!is_file) got = read_to_end(out.r.get());
    });
    const auto relay = relay_all(data, out.w.get(), Bytes{100'001});
    out.w.reset();
    reader.join();
    if (is_file) got = file.content();
    CHECK(relay->state() == RelayState::kEof);
    CHECK(relay->truncated());
    CHECK(relay->bytes() == data.size());
    CHECK(got == data.substr(0, 100'001));
  }
}

TEST_CASE("relay: output of exactly the limit is not truncated; a limit of 0 passes nothing") {
  Pair out = make_pipe();
  const auto exact = relay_all("12345", out.w.get(), Bytes{5});
  CHECK_FALSE(exact->truncated());
  const auto none = relay_all("x", out.w.get(), Bytes{0});
  CHECK(none->truncated());
  out.w.reset();
  CHECK(read_to_end(out.r.get()) == "12345");
}

TEST_CASE("relay: memory keeps the first bytes and counts all") {
  for (const std::uint64_t cap :
       {std::uint64_t{0}, std::uint64_t{70'000}, std::uint64_t{1} << 30U}) {
    CAPTURE(cap);
    Loop loop;
    Pair in = make_pipe();
    const std::string data = pattern(1'000'000);
    std::thread writer([&] { write_and_close(std::move(in.w), data); });
    auto relay = Relay::to_memory(loop, std::move(in.r), Bytes{cap}, [&] { loop.stop(); });
    CHECK(run_to_end(loop, *relay));
    writer.join();
    CHECK(relay->bytes() == data.size());
    CHECK(relay->truncated() == (cap < data.size()));
    CHECK(relay->take_memory() == data.substr(0, std::min<std::size_t>(cap, data.size())));
  }
}

TEST_CASE("relay: a terminal's master ends when its last user is gone") {
  Loop loop;
  Pair in = make_pty();
  std::thread writer([&] { write_and_close(std::move(in.w), "bye"); });
  auto relay = Relay::to_memory(loop, std::move(in.r), Bytes{1000}, [&] { loop.stop(); });
  CHECK(run_to_end(loop, *relay, 10));
  writer.join();
  CHECK(relay->state() == RelayState::kEof);
  CHECK(relay->take_memory() == "bye");
}

TEST_CASE("relay: input from files, pipes, sockets and devices arrives whole and is then closed") {
  TempFile file;
  const std::string data = pattern(2'000'000);
  {
    UniqueFd fd(::open(file.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(sys::write_all(fd.get(), data).ok());
  }
  for (const std::string kind : {"file", "pipe", "socket", "null"}) {
    CAPTURE(kind);
    Loop loop;
    Pair in;
    std::thread writer;
    if (kind == "file") {
      in.r = UniqueFd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
    } else if (kind == "null") {
      in.r = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    } else {
      in = kind == "pipe" ? make_pipe() : make_socketpair();
      writer = std::thread([&] { write_and_close(std::move(in.w), data); });
    }
    const int before = ::fcntl(in.r.get(), F_GETFL);
    Pair out = make_pipe();
    std::string got;
    std::thread reader([&] { got = read_to_end(out.r.get()); });
    auto relay = Relay::from_fd(loop, in.r.get(), std::move(out.w), [&] { loop.stop(); });
    CHECK(run_to_end(loop, *relay));
    CHECK(relay->state() == RelayState::kEof);
    CHECK(::fcntl(in.r.get(), F_GETFL) == before);
    if (writer.joinable()) writer.join();
    reader.join();
    CHECK(got == (kind == "null" ? "" : data));
  }
}

TEST_CASE("relay: a program that closes its input ends the relay, the source is not drained") {
  Loop loop;
  Pair in = make_pipe();
  Pair out = make_pipe();
  auto relay = Relay::from_fd(loop, in.r.get(), std::move(out.w), [&] { loop.stop(); });
  const Watch later = loop.add_timer(Millis{20}, [&] { out.r.reset(); });
  REQUIRE(run_to_end(loop, *relay, 10));
  CHECK(relay->state() == RelayState::kSinkClosed);
  REQUIRE(sys::write_all(in.w.get(), "left").ok());
  in.w.reset();
  CHECK(read_to_end(in.r.get()) == "left");
}

TEST_CASE("relay: input that a program does not read waits without turning in circles") {
  Loop loop;
  TempFile file;
  {
    UniqueFd fd(::open(file.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(sys::write_all(fd.get(), pattern(1'000'000)).ok());
  }
  const UniqueFd in(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
  Pair out = make_pipe();
  auto relay = Relay::from_fd(loop, in.get(), std::move(out.w), {});
  const Watch stop = loop.add_timer(Millis{300}, [&] { loop.stop(); });
  timespec before{};
  timespec after{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  REQUIRE(loop.run().ok());
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  const double used = static_cast<double>(after.tv_sec - before.tv_sec) +
                      static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9;
  CHECK(used < 0.1);
  CHECK(relay->running());
}

TEST_CASE("relay: the end of input becomes ^D on a terminal, twice after an open line") {
  for (const std::string text : {"line\n", "open", ""}) {
    CAPTURE(text);
    Loop loop;
    int master = -1;
    int slave = -1;
    REQUIRE(::openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
    const UniqueFd keep(master);
    UniqueFd user(slave);
    Pair in = make_pipe();
    write_and_close(std::move(in.w), text);
    auto relay = Relay::from_fd_to_terminal(
        loop, in.r.get(), UniqueFd(::fcntl(master, F_DUPFD_CLOEXEC, 3)), [&] { loop.stop(); });
    CHECK(run_to_end(loop, *relay, 10));
    std::string got;
    for (;;) {  // a canonical line at a time; 0 is the end of file
      std::array<char, 64> line{};
      const ssize_t n = ::read(user.get(), line.data(), line.size());
      if (n <= 0) break;
      got.append(line.data(), static_cast<std::size_t>(n));
    }
    CHECK(got == text);
  }
}

// NOLINTNEXTLINE(readability-function-size): doctest macros count as branches
TEST_CASE("relay: an input that cannot be read ends a terminal's input as its end does") {
  Loop loop;
  int master = -1;
  int slave = -1;
  REQUIRE(::openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
  const UniqueFd keep(master);
  const UniqueFd user(slave);
  for (const int flags : {O_WRONLY, O_RDONLY | O_DIRECTORY}) {
    CAPTURE(flags);
    const UniqueFd in(::open(flags == O_WRONLY ? "/dev/null" : "/", flags | O_CLOEXEC));
    REQUIRE(in.valid());
    auto relay = Relay::from_fd_to_terminal(
        loop, in.get(), UniqueFd(::fcntl(master, F_DUPFD_CLOEXEC, 3)), [&] { loop.stop(); });
    CHECK(run_until_done(
        loop, [&] { return !relay->running(); }, 10));
    CHECK(relay->state() == RelayState::kSourceFailed);
    CHECK(relay->error().has_value());
    pollfd readable{.fd = user.get(), .events = POLLIN, .revents = 0};
    REQUIRE(::poll(&readable, 1, 5000) == 1);
    std::array<char, 8> line{};
    CHECK(::read(user.get(), line.data(), line.size()) == 0);
  }
}

TEST_CASE("relay: two streams into one pipe keep the order of each") {
  Loop loop;
  Pair a = make_pipe();
  Pair b = make_pipe();
  Pair out = make_pipe();
  std::string got;
  std::thread reader([&] { got = read_to_end(out.r.get()); });
  int left = 2;
  const auto done = [&] {
    if (--left == 0) loop.stop();
  };
  auto first = Relay::to_fd(loop, std::move(a.r), out.w.get(), std::nullopt, done);
  auto second = Relay::to_fd(loop, std::move(b.r), out.w.get(), std::nullopt, done);
  const auto feed = [](UniqueFd fd, char c) {
    for (int i = 0; i < 20'000; ++i) {
      const std::string piece{c, static_cast<char>('0' + i % 10)};
      static_cast<void>(sys::write_all(fd.get(), piece));
    }
  };
  std::thread feed_a([&] { feed(std::move(a.w), 'a'); });
  std::thread feed_b([&] { feed(std::move(b.w), 'b'); });
  CHECK(run_until_done(loop, [&] { return left == 0; }));
  feed_a.join();
  feed_b.join();
  out.w.reset();
  reader.join();
  REQUIRE(got.size() == 80'000);
  std::array<int, 2> next{};
  bool is_ordered = true;
  // Pieces may be cut between streams only at their own borders, since each write was atomic.
  for (std::size_t i = 0; i + 1 < got.size(); i += 2) {
    int& n = next.at(got[i] == 'a' ? 0 : 1);
    is_ordered = is_ordered && (got[i] == 'a' || got[i] == 'b') && got[i + 1] == '0' + n;
    n = (n + 1) % 10;
  }
  CHECK(is_ordered);
}

TEST_CASE("relay: 1 GiB goes through and its done callback may destroy it") {
  Loop loop;
  Pair in = make_pipe();
  Pair out = make_pipe();
  constexpr std::uint64_t kSize = std::uint64_t{1} << 30U;
  std::thread writer([&] {
    const std::string chunk = pattern(1U << 20U);
    for (std::uint64_t i = 0; i < kSize; i += chunk.size()) {
      static_cast<void>(sys::write_all(in.w.get(), chunk));
    }
    in.w.reset();
  });
  std::uint64_t got = 0;
  std::thread reader([&] {
    std::string buffer(1U << 20U, '\0');
    for (;;) {
      const ssize_t n = ::read(out.r.get(), buffer.data(), buffer.size());
      if (n <= 0) break;
      got += static_cast<std::uint64_t>(n);
    }
  });
  std::unique_ptr<Relay> relay;
  std::uint64_t counted = 0;
  relay = Relay::to_fd(loop, std::move(in.r), out.w.get(), std::nullopt, [&] {
    counted = relay->bytes();
    relay.reset();
    loop.stop();
  });
  CHECK(run_until_done(
      loop, [&] { return relay == nullptr; }, 100));
  out.w.reset();
  writer.join();
  reader.join();
  CHECK(counted == kSize);
  CHECK(got == kSize);
}

}  // namespace sbx::supervise
