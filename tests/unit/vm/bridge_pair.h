// bridge pair: two bridges joined by a socket pair on one loop, with a supervisor and an agent that
// the test plays.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/backend/vm/bridge.h"
#include "core/base/clock.h"
#include "core/base/loop.h"
#include "core/base/sys.h"
#include "core/ipc/channel.h"

#include "tests/support/skip.h"

namespace sbx::vm {

class TestLink final : public backend::AgentLink {
 public:
  TestLink(UniqueFd socket, ipc::Side side) : channel_(std::move(socket), side) {}
  int fd() const override { return channel_.fd(); }
  Status send(const ipc::Message& message, std::span<const int> fds) override {
    return channel_.send(message, fds);
  }
  Result<ipc::Received> receive() override { return channel_.receive(ipc::Wait::kNo); }

 private:
  ipc::Channel channel_;
};

inline UniqueFd nonblocking(UniqueFd fd) {
  REQUIRE(sys::set_nonblocking(fd.get(), true).ok());
  return fd;
}

/// The loop, turned by the test.
class Turner {
 public:
  /// Turns it until `is_done`, at most 20 s; whether it was.
  bool until(const std::function<bool()>& is_done) {
    const std::int64_t end =
        monotonic_now().v + static_cast<std::int64_t>(20'000 * test::slowness());
    while (!is_done()) {
      if (monotonic_now().v > end) return false;
      for (int i = 0; i < 8; ++i) {
        turn();
      }
    }
    return true;
  }
  void turn(Millis time) {
    const Watch timer = loop.add_timer(time, [this] { loop.stop(); });
    (void)loop.run();
  }
  /// What is ready now, without waiting.
  void turn() {
    const Watch last =
        loop.add_fd(ready_.w.get(), EPOLLOUT, [this](std::uint32_t) { loop.stop(); });
    (void)loop.run();
  }
  Loop loop;

 private:
  sys::Pipe ready_ = sys::pipe().value();
};

/// One bridge whose wire and local channel the test holds.
class OneBridge {
 public:
  OneBridge(Turner& turner, ipc::Side side, UniqueFd wire, BridgeOptions options = {}) {
    auto pair = sys::socketpair_seqpacket();
    REQUIRE(pair.ok());
    const ipc::Side other = side == ipc::Side::kHost ? ipc::Side::kAgent : ipc::Side::kHost;
    link = std::make_unique<TestLink>(std::move(pair.value().a), other);
    channel = std::make_unique<ipc::Channel>(std::move(pair.value().b), side);
    bridge = std::make_unique<Bridge>(
        turner.loop,
        side,
        std::move(wire),
        *link,
        [this](Status status) { ended = std::move(status); },
        std::move(options));
  }

  std::optional<Status> ended;
  std::unique_ptr<TestLink> link;
  std::unique_ptr<ipc::Channel> channel;  ///< the supervisor's or the agent's end
  std::unique_ptr<Bridge> bridge;
};

/// Messages as they come out of a channel.
inline std::optional<ipc::Received> next(Turner& turner, ipc::Channel& channel) {
  std::optional<ipc::Received> out;
  (void)turner.until([&] {
    auto received = channel.receive(ipc::Wait::kNo);
    if (received.ok()) out = std::move(received).value();
    return out.has_value() || received.error().code() != Errc::kNotFound;
  });
  return out;
}

struct BridgePair : Turner {
  explicit BridgePair(BridgeOptions host_options = {}, BridgeOptions guest_options = {}) {
    auto pair = sys::socketpair_stream();
    REQUIRE(pair.ok());
    host = std::make_unique<OneBridge>(
        *this, ipc::Side::kHost, std::move(pair.value().a), std::move(host_options));
    guest = std::make_unique<OneBridge>(
        *this, ipc::Side::kAgent, std::move(pair.value().b), std::move(guest_options));
  }

  /// The ends of an exec that both sides have.
  struct Exec {
    std::uint32_t id = 0;
    UniqueFd in, out, err;                    ///< the supervisor's
    UniqueFd inner_in, inner_out, inner_err;  ///< the program's
  };
  Exec start(std::uint32_t id) {
    Exec exec;
    exec.id = id;
    std::array<sys::Pipe, 3> pipes;
    for (sys::Pipe& pipe : pipes) {
      pipe = sys::pipe().value();
    }
    ipc::Exec message;
    message.id = id;
    message.argv = {"program"};
    const std::array<int, 3> fds{pipes[0].r.get(), pipes[1].w.get(), pipes[2].w.get()};
    REQUIRE(host->channel->send(message, fds).ok());
    exec.in = nonblocking(std::move(pipes[0].w));
    exec.out = nonblocking(std::move(pipes[1].r));
    exec.err = nonblocking(std::move(pipes[2].r));
    auto received = next(*this, *guest->channel);
    REQUIRE(received.has_value());
    REQUIRE(std::holds_alternative<ipc::Exec>(received->message));
    CHECK(std::get<ipc::Exec>(received->message).id == id);
    REQUIRE(received->fds.size() == 3);
    exec.inner_in = nonblocking(std::move(received->fds[0]));
    exec.inner_out = nonblocking(std::move(received->fds[1]));
    exec.inner_err = nonblocking(std::move(received->fds[2]));
    return exec;
  }
  template <typename Message>
  std::optional<Message> heard() {
    auto received = next(*this, *host->channel);
    if (!received.has_value() || !std::holds_alternative<Message>(received->message)) return {};
    return std::get<Message>(received->message);
  }

  std::unique_ptr<OneBridge> host;
  std::unique_ptr<OneBridge> guest;
};

/// Numbers that a seed gives (xorshift).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2654435769U + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }
  std::uint64_t below(std::uint64_t most) { return next() % most; }

 private:
  std::uint64_t state_;
};

/// A byte of a stream that is known by its place in it.
inline char byte_at(std::uint64_t seed, std::uint64_t at) {
  const std::uint64_t word = (at / 8 + seed) * 0x9E3779B97F4A7C15U;
  return static_cast<char>(word >> (8 * (at % 8)));
}

/// Writes `total` known bytes into a descriptor, and reads and checks them at the other end.
struct Sender {
  int fd = -1;
  std::uint64_t seed = 0;
  std::uint64_t total = 0;
  Random random{1};
  std::uint64_t done = 0;
  std::string piece{};

  /// False when nothing went.
  bool step() {
    if (done == total) return false;
    if (piece.empty()) {
      piece.resize(std::min<std::uint64_t>(random.below(100'000) + 1, total - done));
      for (std::uint64_t i = 0; i < piece.size(); ++i) {
        piece[i] = byte_at(seed, done + i);
      }
    }
    const ssize_t n = ::write(fd, piece.data(), piece.size());
    if (n <= 0) return false;
    done += static_cast<std::uint64_t>(n);
    piece.erase(0, static_cast<std::size_t>(n));
    return true;
  }
};
struct Receiver {
  int fd = -1;
  std::uint64_t seed = 0;
  Random random{2};
  std::uint64_t done = 0;
  bool is_wrong = false;
  bool is_over = false;
  std::vector<char> piece = std::vector<char>(100'000);

  bool step() {
    const ssize_t n = ::read(fd, piece.data(), random.below(piece.size()) + 1);
    if (n == 0) is_over = true;
    if (n <= 0) return false;
    for (ssize_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      is_wrong = is_wrong || piece[at] != byte_at(seed, done + at);
    }
    done += static_cast<std::uint64_t>(n);
    return true;
  }
};

}  // namespace sbx::vm
