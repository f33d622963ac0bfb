// Bridge tests: two bridges joined by a socket pair carry everything that supervisor and agent say.
#include "core/backend/vm/bridge.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/text.h"
#include "core/ipc/mux.h"

#include "tests/unit/vm/bridge_pair.h"

using namespace sbx;
using namespace sbx::vm;

namespace {

/// SIGPIPE is ignored, as in every role of sbx.
const auto kIgnored = ::signal(SIGPIPE, SIG_IGN);

std::string read_now(int fd) {
  std::string out(1 << 20, '\0');
  const ssize_t n = ::read(fd, out.data(), out.size());
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return out;
}

bool is_at_end(int fd) {
  char byte = 0;
  return ::read(fd, &byte, 1) == 0;
}

std::string read_until(BridgePair& pair, int fd, std::size_t size) {
  std::string out;
  (void)pair.until([&] {
    out += read_now(fd);
    return out.size() >= size;
  });
  return out;
}

std::size_t fill(int fd) {
  const std::string piece(4096, 'x');
  std::size_t total = 0;
  for (;;) {
    const ssize_t n = ::write(fd, piece.data(), piece.size());
    if (n <= 0) return total;
    total += static_cast<std::size_t>(n);
  }
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("bridge: messages arrive whole and in order, both ways") {
  BridgePair pair;
  REQUIRE(pair.guest->channel->send(ipc::Ready{7}).ok());
  for (std::uint32_t i = 1; i <= 200; ++i) {
    REQUIRE(pair.host->channel->send(ipc::Signal{i, 15}).ok());
    REQUIRE(pair.guest->channel->send(ipc::FrozenSet{true, static_cast<int>(i)}).ok());
    pair.turn();
  }
  CHECK(pair.heard<ipc::Ready>()->version == 7);
  for (std::uint32_t i = 1; i <= 200; ++i) {
    const auto got = next(pair, *pair.guest->channel);
    REQUIRE(got.has_value());
    CHECK(std::get<ipc::Signal>(got->message).id == i);
    CHECK(pair.heard<ipc::FrozenSet>()->error == static_cast<int>(i));
  }
}

TEST_CASE("bridge: an argv of megabytes arrives, in pieces") {
  BridgePair pair;
  ipc::Exec exec;
  exec.id = 1;
  exec.tty = true;
  for (int i = 0; i < 60; ++i) {
    exec.argv.emplace_back(100'000, static_cast<char>('a' + i % 26));
  }
  REQUIRE(pair.host->channel->send(exec).ok());
  const auto got = next(pair, *pair.guest->channel);
  REQUIRE(got.has_value());
  CHECK(std::get<ipc::Exec>(got->message).argv == exec.argv);
}

TEST_CASE("bridge: the streams of an exec flow, and each end is seen on the other side") {
  BridgePair pair;
  auto exec = pair.start(1);
  REQUIRE(::write(exec.in.get(), "question", 8) == 8);
  CHECK(read_until(pair, exec.inner_in.get(), 8) == "question");
  REQUIRE(::write(exec.inner_out.get(), "answer", 6) == 6);
  REQUIRE(::write(exec.inner_err.get(), "trouble", 7) == 7);
  CHECK(read_until(pair, exec.out.get(), 6) == "answer");
  CHECK(read_until(pair, exec.err.get(), 7) == "trouble");
  SUBCASE("stdin ends") {
    exec.in.reset();
    CHECK(pair.until([&] { return is_at_end(exec.inner_in.get()); }));
    REQUIRE(::write(exec.inner_out.get(), "more", 4) == 4);
    CHECK(read_until(pair, exec.out.get(), 4) == "more");
  }
  SUBCASE("the program closes an output") {
    exec.inner_out.reset();
    CHECK(pair.until([&] { return is_at_end(exec.out.get()); }));
    CHECK(::write(exec.inner_err.get(), "x", 1) == 1);
    CHECK(read_until(pair, exec.err.get(), 1) == "x");
  }
  SUBCASE("nobody reads an output any more: the program gets EPIPE") {
    exec.out.reset();
    CHECK(pair.until([&] { return ::write(exec.inner_out.get(), "x", 1) < 0 && errno == EPIPE; }));
  }
  SUBCASE("the program reads no more: the writer gets EPIPE") {
    exec.inner_in.reset();
    CHECK(pair.until([&] { return ::write(exec.in.get(), "x", 1) < 0 && errno == EPIPE; }));
  }
}

TEST_CASE("bridge: /dev/null as stdin is /dev/null in the guest") {
  BridgePair pair;
  auto null = sys::open("/dev/null", O_RDONLY);
  auto out = sys::pipe().value();
  ipc::Exec message;
  message.id = 3;
  message.argv = {"x"};
  const std::array<int, 3> fds{null.value().get(), out.w.get(), out.w.get()};
  REQUIRE(pair.host->channel->send(message, fds).ok());
  const auto got = next(pair, *pair.guest->channel);
  REQUIRE(got.has_value());
  struct stat info {};
  REQUIRE(::fstat(got->fds.at(0).get(), &info) == 0);
  CHECK(S_ISCHR(info.st_mode));
}

TEST_CASE("bridge: a reader that does not read stops its own stream, and no other") {
  BridgePair pair;
  auto slow = pair.start(1);
  auto quick = pair.start(2);
  std::size_t written = 0;
  for (int i = 0; i < 50; ++i) {
    written += fill(slow.inner_out.get());
    pair.turn(Millis{2});
  }
  // Two pipes, and the window between them.
  CHECK(written <= 64 * 1024 * 2 + ipc::kWindow);
  CHECK(written >= ipc::kWindow);
  Sender sender{quick.inner_out.get(), 9, 3'000'000};
  Receiver receiver{quick.out.get(), 9};
  CHECK(pair.until([&] {
    while (sender.step() || receiver.step()) {
    }
    return receiver.done == sender.total;
  }));
  CHECK_FALSE(receiver.is_wrong);
  slow.inner_out.reset();
  std::size_t read = 0;
  CHECK(pair.until([&] {
    std::string piece = read_now(slow.out.get());
    read += piece.size();
    return read == written;
  }));
  CHECK(pair.until([&] { return is_at_end(slow.out.get()); }));
}

TEST_CASE("bridge: many streams at once are exact, whatever the pieces") {
  BridgePair pair;
  constexpr std::uint64_t kSize = 2'000'000;
  std::vector<BridgePair::Exec> execs;
  std::vector<Sender> senders;
  std::vector<Receiver> receivers;
  for (std::uint32_t i = 1; i <= 24; ++i) {
    execs.push_back(pair.start(i));
    auto& e = execs.back();
    senders.push_back({e.in.get(), i, kSize, Random(i)});
    receivers.push_back({e.inner_in.get(), i, Random(100 + i)});
    senders.push_back({e.inner_out.get(), 50 + i, kSize, Random(200 + i)});
    receivers.push_back({e.out.get(), 50 + i, Random(300 + i)});
  }
  CHECK(pair.until([&] {
    bool is_done = true;
    for (std::size_t i = 0; i < senders.size(); ++i) {
      (void)senders[i].step();
      (void)receivers[i].step();
      is_done = is_done && receivers[i].done == kSize;
    }
    return is_done;
  }));
  for (const Receiver& receiver : receivers) {
    CHECK_FALSE(receiver.is_wrong);
  }
}

TEST_CASE("bridge: half a gigabyte is exact, both ways at once") {
  BridgePair pair;
  auto exec = pair.start(1);
  constexpr std::uint64_t kSize = 256'000'000;
  Sender out{exec.inner_out.get(), 1, kSize};
  Sender in{exec.in.get(), 2, kSize};
  Receiver from_out{exec.out.get(), 1};
  Receiver from_in{exec.inner_in.get(), 2};
  CHECK(pair.until([&] {
    while (out.step()) {
    }
    while (in.step()) {
    }
    while (from_out.step()) {
    }
    while (from_in.step()) {
    }
    return from_out.done == kSize && from_in.done == kSize;
  }));
  CHECK_FALSE(from_out.is_wrong);
  CHECK_FALSE(from_in.is_wrong);
}

TEST_CASE("bridge: an exit is told after the output that was written before it") {
  BridgePair pair;
  auto exec = pair.start(1);
  SUBCASE("it fits into the pipe") {
    REQUIRE(::write(exec.inner_out.get(), "last words", 10) == 10);
    REQUIRE(pair.guest->channel->send(ipc::Exited{1, 0}).ok());
    REQUIRE(pair.heard<ipc::Exited>().has_value());
    CHECK(read_now(exec.out.get()) == "last words");
  }
  SUBCASE("it waits for a reader") {
    std::size_t written = 0;
    for (int i = 0; i < 30; ++i) {
      written += fill(exec.inner_out.get());
      pair.turn(Millis{2});
    }
    REQUIRE(pair.guest->channel->send(ipc::Exited{1, 0}).ok());
    pair.turn(Millis{1200});
    CHECK(pair.host->channel->receive(ipc::Wait::kNo).error().code() == Errc::kNotFound);
    SUBCASE("that reads in the end") {
      std::size_t read = 0;
      CHECK(pair.until([&] {
        if (auto got = pair.host->channel->receive(ipc::Wait::kNo); got.ok()) {
          // What is not read yet is in the pipe.
          int bytes = 0;
          REQUIRE(::ioctl(exec.out.get(), FIONREAD, &bytes) == 0);
          CHECK(read + static_cast<std::size_t>(bytes) == written);
          return true;
        }
        char piece[1000];
        const ssize_t n = ::read(exec.out.get(), piece, sizeof piece);
        if (n > 0) read += static_cast<std::size_t>(n);
        return false;
      }));
    }
    SUBCASE("that does not, but the exec was signalled") {
      REQUIRE(pair.host->channel->send(ipc::Signal{1, SIGTERM}).ok());
      CHECK(pair.heard<ipc::Exited>().has_value());
    }
    SUBCASE("that goes away") {
      exec.out.reset();
      CHECK(pair.heard<ipc::Exited>().has_value());
    }
  }
}

TEST_CASE("bridge: what pipes hold at the sandbox's end arrives, and then the channel closes") {
  BridgePair pair;
  auto exec = pair.start(1);
  bool is_drained = false;
  pair.guest->bridge->when_drained([&] { is_drained = true; });
  std::size_t written = 0;
  for (int i = 0; i < 30; ++i) {
    written += fill(exec.inner_out.get());
    pair.turn(Millis{2});
  }
  CHECK(written > ipc::kWindow);
  CHECK_FALSE(is_drained);
  REQUIRE(pair.guest->channel->send(ipc::Exited{1, 9}).ok());
  exec.inner_in.reset();
  exec.inner_out.reset();
  exec.inner_err.reset();
  pair.guest->channel.reset();
  // Nobody reads, and still the guest is told that it may go.
  CHECK(pair.until([&] { return is_drained; }));
  CHECK(pair.guest->bridge->is_drained());
  CHECK(pair.until([&] { return pair.guest->ended.has_value(); }));
  CHECK(pair.guest->ended->ok());
  pair.guest.reset();
  CHECK(pair.heard<ipc::Exited>().has_value());
  std::string closed;
  CHECK(pair.until([&] {
    auto got = pair.host->channel->receive(ipc::Wait::kNo);
    if (!got.ok() && got.error().code() != Errc::kNotFound) closed = got.error().message();
    return !closed.empty();
  }));
  CHECK(closed == "the other side closed the channel");
  CHECK_FALSE(pair.host->ended.has_value());
  std::size_t read = 0;
  CHECK(pair.until([&] {
    read += read_now(exec.out.get()).size();
    return read == written;
  }));
  CHECK(pair.until([&] { return pair.host->ended.has_value(); }));
  CHECK(pair.host->ended->ok());
  CHECK(is_at_end(exec.out.get()));
}

TEST_CASE("bridge: a wire that is cut delivers what came, and then the channel closes") {
  BridgePair pair;
  auto exec = pair.start(1);
  REQUIRE(::write(exec.inner_out.get(), "so far", 6) == 6);
  CHECK(read_until(pair, exec.out.get(), 6) == "so far");
  pair.guest.reset();
  CHECK(pair.until([&] { return pair.host->ended.has_value(); }));
  CHECK_FALSE(pair.host->ended->ok());
  CHECK(is_at_end(exec.out.get()));
  CHECK(::write(exec.in.get(), "x", 1) < 0);
  CHECK(pair.host->channel->receive(ipc::Wait::kNo).error().code() == Errc::kProtocol);
}

TEST_CASE("bridge: the guest is told when the supervisor goes") {
  BridgePair pair;
  auto exec = pair.start(1);
  pair.host->channel.reset();
  CHECK(pair.until([&] { return pair.guest->ended.has_value(); }));
  CHECK_FALSE(pair.guest->ended->ok());
}

TEST_CASE("bridge: a terminal goes both ways until its program closes it") {
  BridgePair pair;
  ipc::Exec message;
  message.id = 5;
  message.tty = true;
  message.argv = {"sh"};
  REQUIRE(pair.host->channel->send(message).ok());
  REQUIRE(next(pair, *pair.guest->channel).has_value());
  UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(::grantpt(master.get()) == 0);
  REQUIRE(::unlockpt(master.get()) == 0);
  std::array<char, 64> name{};
  REQUIRE(::ptsname_r(master.get(), name.data(), name.size()) == 0);
  UniqueFd slave(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  const int fd = master.get();
  REQUIRE(pair.guest->channel->send(ipc::Started{5, 2}, std::span(&fd, 1)).ok());
  master.reset();
  auto started = next(pair, *pair.host->channel);
  REQUIRE(started.has_value());
  REQUIRE(started->fds.size() == 1);
  const UniqueFd terminal = nonblocking(std::move(started->fds.front()));
  REQUIRE(::write(terminal.get(), "ls\n", 3) == 3);
  CHECK(read_until(pair, slave.get(), 3) == "ls\n");
  CHECK(read_until(pair, terminal.get(), 4) == "ls\r\n");
  SUBCASE("the program ends") {
    REQUIRE(::write(slave.get(), "bye", 3) == 3);
    slave.reset();
    REQUIRE(pair.guest->channel->send(ipc::Exited{5, 0}).ok());
    REQUIRE(pair.heard<ipc::Exited>().has_value());
    CHECK(read_now(terminal.get()) == "bye");
    CHECK(pair.until([&] { return is_at_end(terminal.get()); }));
  }
  SUBCASE("the program ends, others keep the terminal") {
    REQUIRE(::write(slave.get(), "bye", 3) == 3);
    REQUIRE(pair.guest->channel->send(ipc::Exited{5, 0}).ok());
    REQUIRE(pair.heard<ipc::Exited>().has_value());
    CHECK(read_now(terminal.get()) == "bye");
    REQUIRE(::write(slave.get(), "later", 5) == 5);
    CHECK(read_until(pair, terminal.get(), 5) == "later");
  }
  SUBCASE("the supervisor lets go: the line is hung up") {
    const_cast<UniqueFd&>(terminal).reset();
    CHECK(pair.until([&] { return is_at_end(slave.get()); }));
  }
}

TEST_CASE("bridge: a copy's stream, report and inventory flow as its kind says") {
  BridgePair pair;
  ipc::Files files;
  files.id = 4;
  files.op = ipc::FilesOp::kPack;
  files.is_resuming = true;
  auto stream = sys::pipe().value();
  auto report = sys::pipe().value();
  auto inventory = sys::pipe().value();
  const std::array<int, 3> fds{stream.w.get(), report.w.get(), inventory.r.get()};
  REQUIRE(pair.host->channel->send(files, fds).ok());
  stream.w.reset();
  report.w.reset();
  inventory.r.reset();
  auto got = next(pair, *pair.guest->channel);
  REQUIRE(got.has_value());
  REQUIRE(got->fds.size() == 3);
  for (UniqueFd& fd : got->fds) {
    fd = nonblocking(std::move(fd));
  }
  CHECK(::write(inventory.w.get(), "have", 4) == 4);
  CHECK(read_until(pair, got->fds[2].get(), 4) == "have");
  CHECK(::write(got->fds[0].get(), "tar", 3) == 3);
  got->fds[0].reset();
  stream.r = nonblocking(std::move(stream.r));
  CHECK(read_until(pair, stream.r.get(), 3) == "tar");
  CHECK(pair.until([&] { return is_at_end(stream.r.get()); }));
  CHECK(::write(got->fds[1].get(), "done", 4) == 4);
  got->fds[1].reset();
  report.r = nonblocking(std::move(report.r));
  CHECK(read_until(pair, report.r.get(), 4) == "done");
}

TEST_CASE("bridge: a copy without its descriptors fails, and nothing else does") {
  BridgePair pair;
  ipc::Files files;
  files.id = 4;
  REQUIRE(pair.host->channel->send(files).ok());
  const auto failed = pair.heard<ipc::ExecFailed>();
  REQUIRE(failed.has_value());
  CHECK(failed->id == 4);
  auto exec = pair.start(5);
  CHECK(::write(exec.in.get(), "x", 1) == 1);
  CHECK(read_until(pair, exec.inner_in.get(), 1) == "x");
}

TEST_CASE("bridge: no descriptor is left over when execs have ended") {
  const std::size_t before = open_descriptors();
  {
    BridgePair pair;
    const std::size_t idle = open_descriptors();
    for (std::uint32_t i = 1; i <= 20; ++i) {
      auto exec = pair.start(i);
      CHECK(::write(exec.inner_out.get(), "x", 1) == 1);
      exec.inner_out.reset();
      exec.inner_err.reset();
      exec.inner_in.reset();
      REQUIRE(pair.guest->channel->send(ipc::Exited{i, 0}).ok());
      REQUIRE(pair.heard<ipc::Exited>().has_value());
      CHECK(read_now(exec.out.get()) == "x");
    }
    CHECK(pair.until([&] { return open_descriptors() == idle; }));
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("bridge: with nothing to do it does nothing, whatever state its streams are in") {
  BridgePair pair;
  const auto cpu_ms = [] {
    timespec used{};
    REQUIRE(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0);
    return used.tv_sec * 1000 + used.tv_nsec / 1'000'000;
  };
  auto stuck = pair.start(1);
  auto halves = pair.start(2);
  auto fed = pair.start(3);
  for (int i = 0; i < 20; ++i) {
    (void)fill(stuck.inner_out.get());
    (void)fill(fed.in.get());  // a program that does not read
    pair.turn(Millis{2});
  }
  halves.in.reset();
  halves.err.reset();
  halves.inner_out.reset();
  pair.turn(Millis{50});
  REQUIRE(pair.guest->channel->send(ipc::Exited{1, 0}).ok());
  pair.turn(Millis{50});
  const auto before = cpu_ms();
  pair.turn(Millis{400});
  CHECK(cpu_ms() - before < 100);
  // The source of a stream that has no credit left ends.
  stuck.inner_out.reset();
  fed.in.reset();
  pair.turn(Millis{50});
  const auto then = cpu_ms();
  pair.turn(Millis{400});
  CHECK(cpu_ms() - then < 100);
}
