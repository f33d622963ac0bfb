// Bridge process tests: the host's end in a process of its own, and a real jail behind the guest's.
#include "core/backend/vm/bridge_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "core/backend/vm/bridge.h"
#include "core/base/fs.h"
#include "core/ipc/mux.h"
#include "core/supervise/supervisor.h"

#include "tests/support/process.h"
#include "tests/unit/supervise/box.h"
#include "tests/unit/vm/bridge_pair.h"

using namespace sbx;
using namespace sbx::vm;
using supervise::Complaint;

namespace {

/// A sandbox whose jail is in another process, behind a wire.
class Wired final : public backend::Sandbox {
 public:
  Wired(BridgeProcess bridge, ChildProcess guest, UniqueFd order)
      : bridge_(std::move(bridge)),
        guest_(std::move(guest)),
        order_(std::move(order)),
        link_(bridge_.take_channel(), ipc::Side::kHost) {}
  backend::AgentLink& agent() override { return link_; }
  int exit_fd() const override { return guest_.pidfd(); }
  std::optional<backend::User> stream_owner(const std::optional<backend::User>&) const override {
    return std::nullopt;
  }
  Status kill() override {
    order_.reset();
    return {};
  }
  Result<uint64_t> cpu_time() const override { return Error(Errc::kUnsupported, "no"); }
  Result<uint64_t> oom_kills() const override { return std::uint64_t{0}; }
  Result<backend::LiveUsage> usage() const override { return backend::LiveUsage{}; }
  Result<std::vector<backend::ProcessInfo>> processes() const override {
    return std::vector<backend::ProcessInfo>();
  }
  bool has_freezer() const override { return false; }
  Status set_frozen(bool) override { return Error(Errc::kUnsupported, "no"); }
  Result<bool> is_frozen_as(bool) const override { return false; }
  Status release_killed() override { return {}; }
  /// The guest ends its jail, gives the host's bridge what is left, and ends.
  Result<backend::FinalState> finish() override {
    order_.reset();
    status = guest_.wait().value();
    return backend::FinalState{};
  }
  std::span<const backend::InputMount> copies_needed() const override { return {}; }
  BridgeProcess& bridge() { return bridge_; }
  int guest_pid() const { return guest_.pid(); }
  int status = -1;

 private:
  BridgeProcess bridge_;
  ChildProcess guest_;
  UniqueFd order_;
  TestLink link_;
};

/// The guest: a jail of ours and its bridge, until nobody holds `order` any more.
int run_guest(const std::string& state_dir, UniqueFd wire, const UniqueFd& order) {
  (void)::signal(SIGPIPE, SIG_IGN);
  const auto id = confine::cgroup_id();
  if (!id.ok()) return 10;
  const profile::Profile profile;
  backend::LaunchRequest request;
  request.profile = &profile;
  request.id = id.value();
  request.state_dir = state_dir;
  auto plan = backend::jail_backend().plan(request);
  if (!plan.ok()) return 11;
  auto sandbox = plan.value()->launch(nullptr);
  if (!sandbox.ok()) return 12;
  backend::Sandbox& jail = *sandbox.value();
  Loop loop;
  int result = 13;
  BridgeOptions options;
  options.stream_owner = [&](const std::optional<backend::User>& user) {
    return jail.stream_owner(user);
  };
  Bridge bridge(
      loop,
      ipc::Side::kAgent,
      std::move(wire),
      jail.agent(),
      [&](const Status& status) {
        result = status.ok() ? 0 : 14;
        loop.stop();
      },
      std::move(options));
  Watch ordered;
  ordered = loop.add_fd(order.get(), EPOLLIN, [&](std::uint32_t) {
    ordered.remove();
    (void)jail.kill();
  });
  (void)loop.run();
  return jail.finish().ok() ? result : 15;
}

struct Vm {
  Complaint open() {
    auto pair = sys::socketpair_stream();
    auto order = sys::pipe();
    if (!pair.ok() || !order.ok()) return "make a wire";
    auto bridge = start_bridge(std::move(pair.value().a));
    if (!bridge.ok()) return bridge.error().to_string();
    auto forked = fork_pidfd();
    if (!forked.ok()) return "fork";
    if (forked.value().pid == 0) {
      order.value().w.reset();
      ::_exit(run_guest(dir.path(), std::move(pair.value().b), order.value().r));
    }
    auto wired =
        std::make_unique<Wired>(std::move(bridge).value(),
                                ChildProcess(forked.value().pid, std::move(forked.value().pidfd)),
                                std::move(order.value().w));
    sandbox = wired.get();
    sup = std::make_unique<supervise::Supervisor>(
        turner.loop, std::move(wired), [](const supervise::Event&) {}, gate);
    sup->when_broken([this](Error error) { broken = error.to_string(); });
    return std::nullopt;
  }

  struct Run {
    std::optional<int> status;
    backend::ExecStreams streams;
    std::string out;
    Complaint failed;
  };
  std::unique_ptr<Run> start(std::vector<std::string> argv,
                             supervise::Stdin want_stdin = supervise::Stdin::kNone,
                             bool has_terminal = false,
                             bool is_last = false) {
    auto run = std::make_unique<Run>();
    backend::ExecSpec spec;
    spec.argv = std::move(argv);
    spec.env = {"PATH=/usr/bin:/bin"};
    spec.is_last = is_last;
    if (has_terminal) spec.tty = backend::TermSize{33, 77};
    supervise::ExecHandler handler;
    handler.on_streams = [r = run.get()](backend::ExecStreams streams) {
      r->streams = std::move(streams);
      (void)sys::set_nonblocking(r->streams.out.get(), true);
    };
    handler.on_exit = [r = run.get()](int status) { r->status = status; };
    handler.on_failed = [r = run.get()](int, Error error) { r->failed = error.to_string(); };
    const auto id = sup->exec(spec, want_stdin, std::move(handler));
    if (!id.ok()) run->failed = id.error().to_string();
    return run;
  }
  /// Reads its output until it has exited and, with `is_to_end`, until that has ended too.
  bool finish(Run& run, bool is_to_end = true) {
    bool is_at_end = false;
    return turner.until([&] {
      if (run.failed.has_value() || !broken.empty()) return true;
      is_at_end = is_at_end || read_some(run);
      return run.status.has_value() && (is_at_end || !is_to_end);
    });
  }
  static bool read_some(Run& run) {
    std::string piece(1 << 16, '\0');
    if (!run.streams.out.valid()) return false;
    const ssize_t n = ::read(run.streams.out.get(), piece.data(), piece.size());
    if (n > 0) run.out.append(piece, 0, static_cast<std::size_t>(n));
    return n == 0;
  }

  Turner turner;
  test::WorkDir dir{test::self()};
  supervise::AllowGate gate;
  std::string broken;
  Wired* sandbox = nullptr;
  std::unique_ptr<supervise::Supervisor> sup;
};

#define OPEN_VM(vm)                                    \
  Vm vm;                                               \
  do {                                                 \
    if (Complaint said = vm.open(); said) return said; \
  } while (false)

bool has_ended(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    const auto stat =
        fs::read_file_at(AT_FDCWD, "/proc/" + std::to_string(pid) + "/stat", Bytes{4096});
    if (!stat.ok() || stat.value().find(") Z ") != std::string::npos) return true;
    test::pause(0.01);
  }
  return false;
}

std::string status_of(pid_t pid) {
  const auto text =
      fs::read_file_at(AT_FDCWD, "/proc/" + std::to_string(pid) + "/status", Bytes{65536});
  return text.ok() ? text.value() : std::string();
}

}  // namespace

TEST_CASE(
    "bridge process: it has no capabilities, no way to new ones, and no descriptors of ours") {
  auto pair = sys::socketpair_stream().value();
  auto ours = sys::pipe().value();
  auto bridge = start_bridge(std::move(pair.a));
  REQUIRE(bridge.ok());
  const int pid = bridge.value().pid();
  std::string status;
  for (int i = 0; i < 500; ++i) {
    status = status_of(pid);
    if (status.find("Seccomp:\t2") != std::string::npos) break;
    test::pause(0.01);
  }
  CHECK(status.find("CapPrm:\t0000000000000000") != std::string::npos);
  if (::geteuid() == 0) CHECK(status.find("CapBnd:\t0000000000000000") != std::string::npos);
  CHECK(status.find("NoNewPrivs:\t1") != std::string::npos);
  CHECK(status.find("Seccomp:\t2") != std::string::npos);
  // It does not keep our pipe open.
  ours.w.reset();
  char byte = 0;
  CHECK(::read(ours.r.get(), &byte, 1) == 0);
  CHECK_FALSE(bridge.value().result().has_value());
}

TEST_CASE("bridge process: it ends with the wire and says why") {
  auto pair = sys::socketpair_stream().value();
  auto bridge = start_bridge(std::move(pair.a));
  REQUIRE(bridge.ok());
  ipc::Channel channel(bridge.value().take_channel(), ipc::Side::kHost);
  SUBCASE("cut off") {
    pair.b.reset();
  }
  SUBCASE("rubbish") {
    CHECK(::write(pair.b.get(), "rubbish, rubbish", 16) == 16);
  }
  const auto ended = bridge.value().wait(Millis{20'000});
  REQUIRE(ended.ok());
  CHECK(ended.value());
  REQUIRE(bridge.value().result().has_value());
  REQUIRE_FALSE(bridge.value().result()->ok());
  CHECK(bridge.value().result()->error().code() == Errc::kProtocol);
  const auto got = channel.receive(ipc::Wait::kYes);
  CHECK(got.error().message() == "the other side closed the channel");
}

TEST_CASE("bridge process: it dies with whoever started it") {
  auto report = sys::pipe().value();
  auto pair = sys::socketpair_stream().value();
  const pid_t child = ::fork();
  if (child == 0) {
    auto bridge = start_bridge(std::move(pair.a));
    const int pid = bridge.ok() ? bridge.value().pid() : 0;
    (void)!::write(report.w.get(), &pid, sizeof pid);
    for (;;)
      ::pause();
  }
  int pid = 0;
  REQUIRE(::read(report.r.get(), &pid, sizeof pid) == sizeof pid);
  REQUIRE(pid > 0);
  test::pause(0.05);
  REQUIRE(::kill(pid, 0) == 0);
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(has_ended(pid));
}

TEST_CASE("bridge process: it comes to rest, goes on, and its successor takes over") {
  Turner turner;
  auto pair = sys::socketpair_stream().value();
  auto bridge = start_bridge(std::move(pair.a));
  REQUIRE(bridge.ok());
  OneBridge guest(turner, ipc::Side::kAgent, std::move(pair.b));
  auto channel = std::make_unique<ipc::Channel>(bridge.value().take_channel(), ipc::Side::kHost);
  sys::Pipe in = sys::pipe().value();
  sys::Pipe out = sys::pipe(O_NONBLOCK).value();
  ipc::Exec message;
  message.id = 1;
  const std::array<int, 3> fds{in.r.get(), out.w.get(), out.w.get()};
  REQUIRE(channel->send(message, fds).ok());
  out.w.reset();
  in.r.reset();
  auto inner = next(turner, *guest.channel);
  REQUIRE(inner.has_value());
  REQUIRE(::write(inner->fds[1].get(), "before ", 7) == 7);
  std::optional<std::uint64_t> written;
  guest.bridge->quiesce([&](std::uint64_t count) { written = count; });
  REQUIRE(turner.until([&] { return written.has_value(); }));
  const auto rest = bridge.value().rest(*written, Millis{5000});
  REQUIRE_MESSAGE(rest.ok(), (rest.ok() ? "" : rest.error().to_string()));
  std::optional<Status> drained;
  guest.bridge->drain_wire(rest.value().written, [&](Status s) { drained = std::move(s); });
  REQUIRE(turner.until([&] { return drained.has_value(); }));
  REQUIRE(drained->ok());
  REQUIRE(::write(inner->fds[1].get(), "after", 5) == 5);
  REQUIRE(bridge.value().resume(2).ok());
  guest.bridge->resume(2);
  std::string read(64, '\0');
  std::string all;
  CHECK(turner.until([&] {
    const ssize_t n = ::read(out.r.get(), read.data(), read.size());
    if (n > 0) all.append(read, 0, static_cast<std::size_t>(n));
    return all == "before after";
  }));

  // A guest that says less than it wrote, or more, is found out.
  const auto wrong = bridge.value().rest(1, Millis{5000});
  CHECK_FALSE(wrong.ok());
  const auto early = bridge.value().rest(std::uint64_t{1} << 40U, Millis{50});
  CHECK(early.error().code() == Errc::kTimeout);

  auto other = sys::socketpair_stream().value();
  auto successor = start_bridge(std::move(other.a), 3, rest.value().state);
  REQUIRE(successor.ok());
  ipc::Channel second(successor.value().take_channel(), ipc::Side::kHost);
  const auto running = second.receive(ipc::Wait::kYes);
  REQUIRE(running.ok());
  CHECK(std::get<ipc::Running>(running.value().message).id == 1);
  CHECK(running.value().fds.size() == 3);
  auto third_wire = sys::socketpair_stream().value();
  auto broken = start_bridge(std::move(third_wire.a), 3, "no state");
  REQUIRE(broken.ok());
  CHECK(broken.value().wait(Millis{20'000}).value());
  CHECK_FALSE(broken.value().result()->ok());
}

TEST_CASE("bridge, a real jail behind it: output, input, statuses, errors and a terminal") {
  supervise::check_as_both([]() -> Complaint {
    OPEN_VM(vm);
    auto echo = vm.start({"/bin/sh", "-c", "echo hello; exit 7"});
    BOX_CHECK(vm.finish(*echo));
    BOX_CHECK(vm.broken.empty());
    if (echo->failed.has_value()) return echo->failed;
    BOX_CHECK(echo->out == "hello\n");
    BOX_CHECK(WEXITSTATUS(*echo->status) == 7);
    auto cat = vm.start({"/bin/cat"}, supervise::Stdin::kWanted);
    (void)!::write(cat->streams.in.get(), "some text\n", 10);
    cat->streams.in.reset();
    BOX_CHECK(vm.finish(*cat));
    BOX_CHECK(cat->out == "some text\n");
    BOX_CHECK(*cat->status == 0);
    auto missing = vm.start({"no-such-program"});
    BOX_CHECK(vm.finish(*missing));
    BOX_CHECK(missing->failed.has_value());
    auto reopened = vm.start({"/bin/sh", "-c", "echo again > /dev/stdout"});
    BOX_CHECK(vm.finish(*reopened));
    BOX_CHECK(reopened->out == "again\n");
    auto killed = vm.start({"/bin/sh", "-c", "kill -9 $$"});
    BOX_CHECK(vm.finish(*killed));
    BOX_CHECK(WTERMSIG(*killed->status) == SIGKILL);
    auto null = vm.start({"/bin/sh", "-c", "test -c /dev/stdin && readlink /proc/self/fd/0"});
    BOX_CHECK(vm.finish(*null));
    BOX_CHECK(null->out == "/dev/null\n");
    auto tty = vm.start(
        {"/bin/sh", "-c", "stty size; tty; read a; echo got $a"}, supervise::Stdin::kWanted, true);
    BOX_CHECK(vm.turner.until([&] {
      (void)Vm::read_some(*tty);
      return tty->out.find("/dev/pts/") != std::string::npos;
    }));
    (void)!::write(tty->streams.in.get(), "word\n", 5);
    BOX_CHECK(vm.finish(*tty));
    BOX_CHECK(tty->out.find("33 77\r\n/dev/pts/") != std::string::npos);
    BOX_CHECK(tty->out.find("got word\r\n") != std::string::npos);
    BOX_CHECK(*tty->status == 0);
    BOX_CHECK(vm.sup->shutdown().ok());
    BOX_CHECK(vm.sandbox->status == 0);
    BOX_CHECK(vm.sandbox->bridge().wait(Millis{20'000}).value());
    BOX_CHECK(vm.sandbox->bridge().result()->ok());
    return std::nullopt;
  });
}

TEST_CASE("bridge, a real jail behind it: many megabytes, and an end that nobody reads to") {
  supervise::check_as_both([]() -> Complaint {
    OPEN_VM(vm);
    auto many = vm.start({"/bin/sh", "-c", "head -c 40000000 /dev/zero | tr '\\0' x"});
    BOX_CHECK(vm.finish(*many));
    BOX_CHECK(vm.broken.empty());
    BOX_CHECK(many->out.size() == 40'000'000);
    BOX_CHECK(many->out.find_first_not_of('x') == std::string::npos);
    auto closed = vm.start({"/bin/sh", "-c", "yes; echo $? >&2"});
    BOX_CHECK(vm.turner.until([&] { return closed->streams.out.valid(); }));
    closed->streams.out.reset();
    BOX_CHECK(vm.finish(*closed, false));
    // Written, not read by anybody yet, and then the sandbox is shut down.
    auto last = vm.start({"/bin/sh", "-c", "head -c 300000 /dev/zero; echo end"},
                         supervise::Stdin::kNone,
                         false,
                         true);
    vm.turner.turn(Millis{1000});
    BOX_CHECK(vm.sup->shutdown().ok());
    BOX_CHECK(vm.sandbox->status == 0);
    BOX_CHECK(vm.turner.until([&] { return Vm::read_some(*last); }));
    BOX_CHECK(last->out.size() == 300'004);
    BOX_CHECK(last->out.ends_with("end\n"));
    return std::nullopt;
  });
}

TEST_CASE("bridge, a real jail behind it: the guest ends when the supervisor is killed") {
  auto report = sys::pipe().value();
  const pid_t child = ::fork();
  if (child == 0) {
    Vm vm;
    if (vm.open().has_value()) ::_exit(1);
    auto sleeper = vm.start({"/bin/sh", "-c", "echo up; sleep 1000"});
    (void)vm.turner.until([&] {
      (void)Vm::read_some(*sleeper);
      return !sleeper->out.empty();
    });
    const std::array<int, 2> pids{vm.sandbox->bridge().pid(), vm.sandbox->guest_pid()};
    (void)!::write(report.w.get(), pids.data(), sizeof pids);
    for (;;)
      ::pause();
  }
  std::array<int, 2> pids{};
  REQUIRE(::read(report.r.get(), pids.data(), sizeof pids) == sizeof pids);
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(has_ended(pids[0]));
  CHECK(has_ended(pids[1]));
}
