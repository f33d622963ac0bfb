// Bridge hostile tests: whatever a guest says that it may not say ends the host's bridge with
// kProtocol.
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/ipc/mux.h"

#include "tests/unit/vm/bridge_pair.h"

using namespace sbx;
using namespace sbx::vm;
using ipc::FrameKind;

namespace {

std::string hello(std::uint32_t epoch = 1, ipc::Side side = ipc::Side::kAgent) {
  return ipc::encode_mux_frame(
      FrameKind::kHello, 0, ipc::encode_hello({ipc::kMuxVersion, side, epoch}));
}

std::string frame(FrameKind kind, std::uint32_t stream, std::string_view payload = {}) {
  return ipc::encode_mux_frame(kind, stream, payload);
}

std::string number(std::uint32_t value) {
  return ipc::encode_u32(value);
}

std::string message(const ipc::Message& said, std::vector<ipc::Port> ports = {}) {
  return frame(FrameKind::kMessage, 0, "\x01" + ipc::pack_parcel(said, ports));
}

std::string times(const std::string& bytes, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += bytes;
  }
  return out;
}

/// A host's bridge whose guest is the test. Exec 1 has streams 2 (in), 4, 6; exec 2 a terminal.
struct Host : Turner {
  explicit Host(BridgeOptions options = {}) {
    auto pair = sys::socketpair_stream();
    REQUIRE(pair.ok());
    wire = nonblocking(std::move(pair.value().b));
    one = std::make_unique<OneBridge>(
        *this, ipc::Side::kHost, std::move(pair.value().a), std::move(options));
  }
  void start() {
    std::array<sys::Pipe, 3> pipes;
    for (sys::Pipe& pipe : pipes) {
      pipe = sys::pipe().value();
    }
    ipc::Exec exec;
    exec.id = 1;
    const std::array<int, 3> fds{pipes[0].r.get(), pipes[1].w.get(), pipes[2].w.get()};
    REQUIRE(one->channel->send(exec, fds).ok());
    exec.id = 2;
    exec.tty = true;
    REQUIRE(one->channel->send(exec).ok());
    in = std::move(pipes[0].w);
    out = std::move(pipes[1].r);
    err = std::move(pipes[2].r);
    std::string seen;
    const std::string end = message(exec);
    REQUIRE(until([&] {
      seen += heard();
      return seen.find(end) != std::string::npos;
    }));
  }
  std::string heard() const {
    std::string bytes(1 << 20, '\0');
    const ssize_t n = ::read(wire.get(), bytes.data(), bytes.size());
    bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return bytes;
  }
  /// Writes all, as far as it is read; whether the bridge ended.
  bool say(const std::string& bytes) {
    std::size_t at = 0;
    return until([&] {
      if (at < bytes.size()) {
        const ssize_t n = ::write(wire.get(), bytes.data() + at, bytes.size() - at);
        if (n > 0) at += static_cast<std::size_t>(n);
        if (n < 0 && errno != EAGAIN) at = bytes.size();
      }
      return one->ended.has_value();
    });
  }

  UniqueFd wire, in, out, err;
  std::unique_ptr<OneBridge> one;
};

struct Row {
  const char* name;
  std::string bytes;
};

std::vector<Row> rows() {
  const std::string full(ipc::kMaxPayload, 'x');
  std::string oversize = frame(FrameKind::kData, 4, "x");
  oversize[2] = 2;  // 128 KiB
  std::string unknown = frame(FrameKind::kEof, 4);
  unknown[4] = 99;
  const ipc::Started started{2, 7};
  const auto both = ipc::Flow::kBoth;
  return {
      {"an unknown kind", unknown},
      {"a length beyond the limit", oversize},
      {"data without bytes", frame(FrameKind::kData, 4, "")},
      {"a stream that never was", frame(FrameKind::kData, 8, "x")},
      {"a stream of the guest's that never was", frame(FrameKind::kData, 1, "x")},
      {"data of no stream", frame(FrameKind::kData, 0, "x")},
      {"data into a stream that flows to the guest", frame(FrameKind::kData, 2, "x")},
      {"an end of a stream that flows to the guest", frame(FrameKind::kEof, 2)},
      {"a reset of a stream that flows to the host", frame(FrameKind::kReset, 4)},
      {"credit for a stream that flows to the host", frame(FrameKind::kCredit, 4, number(1))},
      {"a double end", times(frame(FrameKind::kEof, 4), 2)},
      {"data after the end", frame(FrameKind::kEof, 4) + frame(FrameKind::kData, 4, "x")},
      {"a double reset", times(frame(FrameKind::kReset, 2), 2)},
      {"credit of nothing", frame(FrameKind::kCredit, 2, number(0))},
      {"credit beyond all bounds", frame(FrameKind::kCredit, 2, number(0xFFFF'FFFF))},
      {"credit of three bytes", frame(FrameKind::kCredit, 2, "abc")},
      {"more data than was granted", times(frame(FrameKind::kData, 4, full), 12)},
      {"a second greeting", hello()},
      {"an answer to no OPEN", frame(FrameKind::kAccept, 1)},
      {"a refusal of no OPEN", frame(FrameKind::kRefuse, 1, number(1))},
      {"an OPEN of an even number", frame(FrameKind::kOpen, 8)},
      {"an OPEN of a number twice", times(frame(FrameKind::kOpen, 1), 2)},
      {"an end without an ending", frame(FrameKind::kEnd, 0)},
      {"a second ending", times(frame(FrameKind::kEnding, 0), 2)},
      {"a frame after the end",
       frame(FrameKind::kEnding, 0) + frame(FrameKind::kEnd, 0) + frame(FrameKind::kEof, 4)},
      {"rubbish as a message", frame(FrameKind::kMessage, 0, "\x01rubbish")},
      {"a piece of an unknown form", frame(FrameKind::kMessage, 0, "\x02")},
      {"a message without end", times(frame(FrameKind::kMessage, 0, std::string(60'000, '\0')), 3)},
      {"a message that only the host sends", message(ipc::Signal{1, 9})},
      {"a message that only the host's bridge sends", message(ipc::Running{})},
      {"a set-up", message(ipc::Setup{})},
      {"a terminal of an exec that has none", message(ipc::Started{1, 7}, {{1, both}})},
      {"a terminal of no exec", message(ipc::Started{9, 7}, {{1, both}})},
      {"a second terminal", message(started, {{1, both}}) + message(started, {{3, both}})},
      {"a terminal after the exec failed",
       message(ipc::ExecFailed{2, true, "x", 2}) + message(started, {{1, both}})},
      {"a terminal with the host's number", message(started, {{8, both}})},
      {"a terminal without a number", message(started, {{0, both}})},
      {"a terminal that flows one way", message(started, {{1, ipc::Flow::kToHost}})},
      {"a terminal that is /dev/null", message(started, {{0, ipc::Flow::kNull}})},
      {"two terminals", message(started, {{1, both}, {3, both}})},
      {"an exit with a descriptor", message(ipc::Exited{1, 0}, {{1, both}})},
  };
}

}  // namespace

TEST_CASE("bridge, hostile guest: each of these ends it with kProtocol") {
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    Host host;
    host.start();
    CHECK(host.say(hello() + row.bytes));
    REQUIRE(host.one->ended.has_value());
    REQUIRE_FALSE(host.one->ended->ok());
    CHECK(host.one->ended->error().code() == Errc::kProtocol);
    host.wire.reset();
    host.one->bridge.reset();
    // The supervisor sees what it would see of a jail that ended.
    ipc::Channel& channel = *host.one->channel;
    CHECK(host.until([&] {
      const auto got = channel.receive(ipc::Wait::kNo);
      return !got.ok() && got.error().code() == Errc::kProtocol;
    }));
  }
}

TEST_CASE("bridge, hostile guest: a greeting of another epoch, version or side is refused") {
  std::string other = hello();
  other[ipc::kFrameHeaderSize + 4] = 9;
  for (const std::string& bytes :
       {hello(2), hello(1, ipc::Side::kHost), other, frame(FrameKind::kEof, 4)}) {
    Host host;
    CHECK(host.say(bytes));
    CHECK(host.one->ended->error().code() == Errc::kProtocol);
  }
}

TEST_CASE("bridge, hostile guest: cut off anywhere, or random, it neither hangs nor crashes") {
  Random random(42);
  const std::string good = hello() + message(ipc::Ready{}) + frame(FrameKind::kData, 4, "abc") +
                           message(ipc::Started{2, 7}, {{1, ipc::Flow::kBoth}}) +
                           frame(FrameKind::kData, 1, "tty") + frame(FrameKind::kReset, 2) +
                           message(ipc::Exited{1, 0}) + frame(FrameKind::kEnding, 0) +
                           frame(FrameKind::kEnd, 0);
  for (std::size_t size = 0; size <= good.size(); size += 7) {
    Host host;
    host.start();
    std::string bytes = good.substr(0, size);
    if (size > hello().size() && size % 2 == 0) bytes[random.below(size)] ^= '\x41';
    REQUIRE(::write(host.wire.get(), bytes.data(), bytes.size()) ==
            static_cast<ssize_t>(bytes.size()));
    host.turn(Millis{2});
    host.wire.reset();
    CHECK(host.until([&] { return host.one->ended.has_value(); }));
  }
}

TEST_CASE("bridge, hostile guest: random frames of known kinds end it or are borne") {
  Random random(7);
  for (int round = 0; round < 400; ++round) {
    Host host;
    host.start();
    std::string bytes = hello();
    for (std::uint64_t left = random.below(60); left > 0; --left) {
      const auto stream = static_cast<std::uint32_t>(random.below(9));
      const std::uint64_t what = random.below(12);
      if (what < 4) bytes += frame(FrameKind::kData, stream, std::string(random.below(9000), 'x'));
      if (what == 4) bytes += frame(FrameKind::kCredit, stream, number(stream * 999 + 1));
      if (what == 5) bytes += frame(FrameKind::kEof, stream);
      if (what == 6) bytes += frame(FrameKind::kReset, stream);
      if (what == 7) bytes += frame(FrameKind::kOpen, stream, "x");
      if (what == 8) bytes += message(ipc::Started{2, 7}, {{stream, ipc::Flow::kBoth}});
      if (what == 9) bytes += message(ipc::Exited{stream, 0});
      if (what == 10) bytes += message(ipc::ExecFailed{stream, false, "x", 1});
      if (what == 11) bytes += frame(FrameKind::kEnding, 0);
    }
    if (random.below(4) == 0) bytes[random.below(bytes.size())] ^= '\x11';
    std::size_t at = 0;
    for (int i = 0; i < 40 && at < bytes.size(); ++i) {
      const ssize_t n = ::write(
          host.wire.get(), bytes.data() + at, std::min<std::size_t>(bytes.size() - at, 5000));
      if (n > 0) at += static_cast<std::size_t>(n);
      host.turn();
      (void)host.heard();
      if (random.below(20) == 0) host.out.reset();
      if (random.below(20) == 0) host.in.reset();
    }
    host.turn();
    host.out.reset();
    host.err.reset();
    host.wire.reset();
    // Terminals that nobody took are in the channel.
    CHECK(host.until([&] {
      (void)host.one->channel->receive(ipc::Wait::kNo);
      return host.one->ended.has_value();
    }));
  }
}

TEST_CASE("bridge: a stream that the guest opens is refused, and only it") {
  Host host;
  host.start();
  const std::string asked = hello() + frame(FrameKind::kOpen, 1, "tcp 10.0.0.1:80") +
                            frame(FrameKind::kOpen, 7, "dns") + message(ipc::FrozenSet{true, 0});
  REQUIRE(::write(host.wire.get(), asked.data(), asked.size()) ==
          static_cast<ssize_t>(asked.size()));
  const std::string expected = frame(FrameKind::kRefuse, 1, number(ECONNREFUSED)) +
                               frame(FrameKind::kRefuse, 7, number(ECONNREFUSED));
  std::string heard;
  CHECK(host.until([&] {
    heard += host.heard();
    return heard.size() >= expected.size();
  }));
  CHECK(heard == expected);
  CHECK(next(host, *host.one->channel).has_value());
  CHECK_FALSE(host.one->ended.has_value());
}

TEST_CASE("bridge, hostile guest: OPENs whose answers are not read do not pile up") {
  Host host;
  host.start();
  std::string bytes = hello();
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    bytes += frame(FrameKind::kOpen, 2 * i + 1, "x");
  }
  CHECK(host.say(bytes));
  CHECK(host.one->ended->error().code() == Errc::kProtocol);
}

TEST_CASE("bridge: messages that nobody takes stop the wire, not the memory") {
  Host host;
  const std::string one = message(ipc::ExecFailed{1, false, std::string(60'000, 'x'), 1});
  const std::string greeting = hello();
  REQUIRE(::write(host.wire.get(), greeting.data(), greeting.size()) > 0);
  std::size_t written = 0;
  for (int i = 0; i < 2000; ++i) {
    const ssize_t n = ::write(
        host.wire.get(), one.data() + written % one.size(), one.size() - written % one.size());
    if (n > 0) written += static_cast<std::size_t>(n);
    host.turn();
  }
  CHECK(written > 500'000);
  CHECK(written < 4'000'000);
  std::size_t taken = 0;
  CHECK(host.until([&] {
    auto got = host.one->channel->receive(ipc::Wait::kNo);
    if (got.ok()) ++taken;
    return taken == written / one.size();
  }));
}

TEST_CASE("bridge: a guest that takes no messages never blocks the supervisor") {
  Host host;
  std::size_t sent = 0;
  ipc::Exec exec;
  exec.tty = true;
  exec.argv = {std::string(60'000, 'x')};
  CHECK(host.until([&] {
    for (int i = 0; i < 8; ++i) {
      exec.id = static_cast<std::uint32_t>(++sent);
      if (!host.one->channel->send(exec).ok()) break;
      host.turn();
      if (host.one->ended.has_value()) return true;
    }
    return host.one->ended.has_value();
  }));
  REQUIRE(host.one->ended.has_value());
  CHECK(host.one->ended->error().code() == Errc::kLimit);
  CHECK(sent * 60'000 >= kMaxQueued);
}
