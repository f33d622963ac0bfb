// Bridge rest tests: both sides come to rest with no byte under way; then they go on, or a new
// host's bridge takes over from the state of the old one.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "core/backend/vm/bridge_state.h"
#include "core/ipc/mux.h"

#include "tests/unit/vm/bridge_pair.h"

using namespace sbx;
using namespace sbx::vm;

namespace {

/// As the two control paths do it.
void bring_to_rest(BridgePair& pair) {
  std::optional<std::uint64_t> guest;
  std::optional<std::uint64_t> host;
  std::optional<Status> drained;
  pair.guest->bridge->quiesce([&](std::uint64_t written) { guest = written; });
  REQUIRE(pair.until([&] { return guest.has_value(); }));
  pair.host->bridge->drain_wire(*guest, [&](Status status) { drained = std::move(status); });
  REQUIRE(pair.until([&] { return drained.has_value(); }));
  REQUIRE(drained->ok());
  pair.host->bridge->quiesce([&](std::uint64_t written) { host = written; });
  REQUIRE(pair.until([&] { return host.has_value(); }));
  drained.reset();
  pair.guest->bridge->drain_wire(*host, [&](Status status) { drained = std::move(status); });
  REQUIRE(pair.until([&] { return drained.has_value(); }));
  REQUIRE(drained->ok());
}

std::string read_now(int fd) {
  std::string out(1 << 20, '\0');
  const ssize_t n = ::read(fd, out.data(), out.size());
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return out;
}

/// The pair whose guest's wire the test can put another host to: between the two there is a relay
/// of the test's, as QEMU is one.
struct Machine : Turner {
  Machine() {
    auto inside = sys::socketpair_stream().value();
    guest_end = nonblocking(std::move(inside.b));
    guest = std::make_unique<OneBridge>(*this, ipc::Side::kAgent, std::move(inside.a));
  }
  void connect(BridgeOptions options) {
    auto outside = sys::socketpair_stream().value();
    host_end = nonblocking(std::move(outside.b));
    host = std::make_unique<OneBridge>(
        *this, ipc::Side::kHost, std::move(outside.a), std::move(options));
  }
  void disconnect() {
    host.reset();
    host_end.reset();
  }
  /// Moves some bytes each way.
  void relay() {
    move(guest_end.get(), host_end.get(), to_host);
    move(host_end.get(), guest_end.get(), to_guest);
  }
  static void move(int from, int to, std::string& between) {
    if (between.empty()) between = read_now(from);
    if (between.empty()) return;
    const ssize_t n = ::send(to, between.data(), between.size(), MSG_NOSIGNAL);
    if (n > 0) between.erase(0, static_cast<std::size_t>(n));
  }
  bool run(const std::function<bool()>& is_done) {
    return until([&] {
      relay();
      return is_done();
    });
  }
  std::string rest() {
    std::optional<std::uint64_t> count;
    std::optional<Status> drained;
    const auto counted = [&](std::uint64_t written) { count = written; };
    const auto took = [&](Status status) { drained = std::move(status); };
    guest->bridge->quiesce(counted);
    REQUIRE(run([&] { return count.has_value(); }));
    host->bridge->drain_wire(*count, took);
    REQUIRE(run([&] { return drained.has_value(); }));
    REQUIRE(drained->ok());
    count.reset();
    drained.reset();
    host->bridge->quiesce(counted);
    REQUIRE(run([&] { return count.has_value(); }));
    guest->bridge->drain_wire(*count, took);
    REQUIRE(run([&] { return drained.has_value(); }));
    REQUIRE(drained->ok());
    CHECK(to_host.empty());
    CHECK(to_guest.empty());
    auto state = host->bridge->state();
    REQUIRE(state.ok());
    return state.value();
  }

  UniqueFd guest_end, host_end;
  std::string to_host, to_guest;
  std::unique_ptr<OneBridge> guest;
  std::unique_ptr<OneBridge> host;
};

std::optional<ipc::Received> hear(Machine& machine, ipc::Channel& channel) {
  std::optional<ipc::Received> out;
  (void)machine.run([&] {
    auto received = channel.receive(ipc::Wait::kNo);
    if (received.ok()) out = std::move(received).value();
    return out.has_value();
  });
  return out;
}

}  // namespace

TEST_CASE("bridge at rest: a snapshot that failed goes on over the same wire") {
  BridgePair pair;
  auto exec = pair.start(1);
  Sender sender{exec.inner_out.get(), 4, 20'000'000};
  Receiver receiver{exec.out.get(), 4};
  Sender questions{exec.in.get(), 5, 20'000'000};
  Receiver asked{exec.inner_in.get(), 5};
  const auto step = [&] {
    (void)sender.step();
    (void)receiver.step();
    (void)questions.step();
    (void)asked.step();
    return receiver.done == sender.total && asked.done == questions.total;
  };
  for (std::uint32_t epoch = 2; epoch < 8; ++epoch) {
    for (int i = 0; i < 20; ++i) {
      (void)step();
      pair.turn();
    }
    bring_to_rest(pair);
    REQUIRE(pair.host->bridge->state().ok());
    pair.turn(Millis{3});
    pair.guest->bridge->resume(epoch);
    pair.turn(Millis{epoch % 2});
    pair.host->bridge->resume(epoch);
  }
  CHECK(pair.until(step));
  CHECK_FALSE(receiver.is_wrong);
  CHECK_FALSE(asked.is_wrong);
}

TEST_CASE("bridge at rest: a bridge that is not has no state") {
  BridgePair pair;
  CHECK(pair.host->bridge->state().error().code() == Errc::kInternal);
  CHECK(pair.guest->bridge->state().error().code() == Errc::kInternal);
}

TEST_CASE("bridge at rest: a new host's bridge goes on with every stream where it was") {
  Machine machine;
  machine.connect({});
  std::array<sys::Pipe, 3> pipes;
  for (sys::Pipe& pipe : pipes) {
    pipe = sys::pipe(O_NONBLOCK).value();
  }
  ipc::Exec message;
  message.id = 1;
  const std::array<int, 3> fds{pipes[0].r.get(), pipes[1].w.get(), pipes[2].w.get()};
  REQUIRE(machine.host->channel->send(message, fds).ok());
  pipes[0].r.reset();
  pipes[1].w.reset();
  pipes[2].w.reset();
  auto inner = hear(machine, *machine.guest->channel);
  REQUIRE(inner.has_value());
  for (UniqueFd& fd : inner->fds) {
    fd = nonblocking(std::move(fd));
  }
  REQUIRE(machine.guest->channel->send(ipc::Started{1, 77}).ok());
  REQUIRE(hear(machine, *machine.host->channel).has_value());
  inner->fds[2].reset();  // stderr ends before, which the host knows
  CHECK(machine.run([&] {
    char byte = 0;
    return ::read(pipes[2].r.get(), &byte, 1) == 0;
  }));

  Sender sender{inner->fds[1].get(), 4, 6'000'000};
  Receiver receiver{pipes[1].r.get(), 4};
  Sender questions{pipes[0].w.get(), 5, 6'000'000};
  Receiver asked{inner->fds[0].get(), 5};
  std::uint32_t epoch = 1;
  for (const int turns : {15, 40, 3, 60}) {
    for (int i = 0; i < turns; ++i) {
      (void)sender.step();
      (void)questions.step();
      if (i % 3 == 0) (void)receiver.step();
      if (i % 5 == 0) (void)asked.step();
      machine.relay();
      machine.turn();
    }
    const std::string state = machine.rest();
    // The old supervisor takes what is in its pipes.
    while (receiver.step()) {
    }
    machine.disconnect();
    BridgeOptions options;
    options.state = state;
    options.epoch = ++epoch;
    machine.connect(std::move(options));
    machine.guest->bridge->resume(epoch);
    auto running = hear(machine, *machine.host->channel);
    REQUIRE(running.has_value());
    REQUIRE(std::holds_alternative<ipc::Running>(running->message));
    const auto& said = std::get<ipc::Running>(running->message);
    CHECK(said.id == 1);
    CHECK(said.pid == 77);
    CHECK_FALSE(said.tty);
    CHECK_FALSE(said.has_exited);
    CHECK(said.has_in);
    CHECK(said.has_out);
    CHECK_FALSE(said.has_err);
    REQUIRE(running->fds.size() == 2);
    pipes[0].w = nonblocking(std::move(running->fds[0]));
    pipes[1].r = nonblocking(std::move(running->fds[1]));
    questions.fd = pipes[0].w.get();
    receiver.fd = pipes[1].r.get();
  }
  CHECK(machine.run([&] {
    (void)sender.step();
    (void)receiver.step();
    (void)questions.step();
    (void)asked.step();
    return receiver.done == sender.total && asked.done == questions.total;
  }));
  CHECK_FALSE(receiver.is_wrong);
  CHECK_FALSE(asked.is_wrong);
  pipes[0].w.reset();
  inner->fds[1].reset();
  CHECK(machine.run([&] {
    (void)asked.step();
    (void)receiver.step();
    return asked.is_over && receiver.is_over;
  }));
  REQUIRE(machine.guest->channel->send(ipc::Exited{1, 0}).ok());
  auto exited = hear(machine, *machine.host->channel);
  REQUIRE(exited.has_value());
  CHECK(std::holds_alternative<ipc::Exited>(exited->message));
}

TEST_CASE("bridge at rest: an exit that waits for its output, a terminal and a copy") {
  Machine machine;
  machine.connect({});
  sys::Pipe out = sys::pipe(O_NONBLOCK).value();
  sys::Pipe err = sys::pipe().value();
  const auto null = sys::open("/dev/null", O_RDONLY);
  ipc::Exec message;
  message.id = 1;
  const std::array<int, 3> fds{null.value().get(), out.w.get(), err.w.get()};
  REQUIRE(machine.host->channel->send(message, fds).ok());
  out.w.reset();
  auto inner = hear(machine, *machine.guest->channel);
  REQUIRE(inner.has_value());
  message.id = 2;
  message.tty = true;
  REQUIRE(machine.host->channel->send(message, {}).ok());
  REQUIRE(hear(machine, *machine.guest->channel).has_value());
  auto line = sys::socketpair_stream().value();  // a terminal's master, nearly
  const int master = line.a.get();
  REQUIRE(machine.guest->channel->send(ipc::Started{2, 78}, std::span(&master, 1)).ok());
  line.a.reset();
  REQUIRE(hear(machine, *machine.host->channel)->fds.size() == 1);  // closed again: a hang-up
  ipc::Files files;
  files.id = 3;
  files.op = ipc::FilesOp::kPack;
  const std::array<int, 2> ends{err.w.get(), err.w.get()};
  REQUIRE(machine.host->channel->send(files, ends).ok());
  err.w.reset();
  auto copy = hear(machine, *machine.guest->channel);
  REQUIRE(copy.has_value());

  const std::string text(200'000, 'o');
  inner->fds[1] = nonblocking(std::move(inner->fds[1]));
  std::size_t written = 0;
  CHECK(machine.run([&] {
    const ssize_t n = ::write(inner->fds[1].get(), text.data(), text.size() - written);
    if (n > 0) written += static_cast<std::size_t>(n);
    return written == text.size();
  }));
  inner->fds.clear();
  REQUIRE(machine.guest->channel->send(ipc::Exited{1, 0}).ok());
  for (int i = 0; i < 20; ++i) {
    machine.relay();
    machine.turn(Millis{1});
  }
  CHECK(machine.host->channel->receive(ipc::Wait::kNo).error().code() == Errc::kNotFound);
  const std::string state = machine.rest();
  std::string read = read_now(out.r.get());
  machine.disconnect();
  BridgeOptions options;
  options.state = state;
  options.epoch = 2;
  machine.connect(std::move(options));
  machine.guest->bridge->resume(2);

  auto first = hear(machine, *machine.host->channel);
  REQUIRE(first.has_value());
  CHECK(std::get<ipc::Running>(first->message).id == 1);
  REQUIRE(first->fds.size() == 1);
  auto second = hear(machine, *machine.host->channel);
  REQUIRE(second.has_value());
  CHECK(std::get<ipc::Running>(second->message).id == 2);
  CHECK(std::get<ipc::Running>(second->message).tty);
  auto third = hear(machine, *machine.host->channel);
  REQUIRE(third.has_value());
  CHECK(std::get<ipc::Running>(third->message).id == 3);
  CHECK(std::get<ipc::Running>(third->message).is_worker);
  CHECK(third->fds.empty());
  // The copy's end inside is closed, the exit comes once its output has gone before it.
  CHECK(machine.run([&] { return ::write(copy->fds[0].get(), "x", 1) < 0; }));
  first->fds[0] = nonblocking(std::move(first->fds[0]));
  bool has_exited = false;
  CHECK(machine.run([&] {
    auto got = machine.host->channel->receive(ipc::Wait::kNo);
    has_exited =
        has_exited || (got.ok() && std::holds_alternative<ipc::Exited>(got.value().message));
    read += read_now(first->fds[0].get());
    return has_exited && read.size() == text.size();
  }));
  CHECK(read == text);
}

TEST_CASE("bridge state: it decodes to what was encoded, and nothing malformed is taken") {
  BridgeState state;
  state.last_own = 8;
  state.last_peer = 3;
  state.execs.push_back({7, 2, true, false, true, false});
  LiveStream stream;
  stream.number = 4;
  stream.exec = 7;
  stream.flow = ipc::Flow::kToHost;
  stream.window = 100;
  stream.undelivered = "bytes";
  state.streams.push_back(stream);
  state.held.emplace_back(ipc::Exited{7, 1});
  const std::string bytes = encode_state(state);
  const auto again = decode_state(bytes);
  REQUIRE(again.ok());
  CHECK(encode_state(again.value()) == bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK_FALSE(decode_state(bytes.substr(0, size)).ok());
  }
  CHECK_FALSE(decode_state(bytes + "x").ok());
}
