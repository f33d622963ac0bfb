// Tests of a guest's init, in emulated machines with Debian's 6.1 kernel.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/backend/jail/host_tree.h"
#include "core/backend/vm/bridge_process.h"
#include "core/backend/vm/control.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/ipc/channel.h"
#include "core/profile/profile.h"
#include "core/profile/saved.h"

#include "tests/support/process.h"
#include "tests/support/skip.h"
#include "tests/unit/vm/plain_machine.h"

using namespace sbx;
using namespace sbx::vm;
using test::MachineOptions;
using test::PlainMachine;

namespace {

constexpr Millis kBoot{60'000};
constexpr Millis kCall{20'000};

/// With the console in the message when it fails.
ipc::Fields ask(PlainMachine& machine, ipc::Fields request, Millis deadline = kCall) {
  const std::string op = request.op();
  const double begin = test::now();
  const double cpu = machine.cpu_ms();
  const auto answer = machine.control().call(std::move(request), deadline);
  const std::string error = answer.ok() ? "" : answer.error().to_string();
  CAPTURE(op);
  CAPTURE(error);
  const std::string console = answer.ok() ? "" : machine.console();
  CAPTURE(console);
  REQUIRE(answer.ok());
  std::printf("  %-14s %7.1f ms, in the guest %7.1f ms, CPU %7.1f ms\n",
              op.c_str(),
              (test::now() - begin) * 1000,
              static_cast<double>(answer.value().number("took_us")) / 1000,
              machine.cpu_ms() - cpu);
  return answer.value();
}

control::Hello hello(PlainMachine& machine) {
  const auto got = control::decode_hello(ask(machine, ipc::Fields(control::op::kHello), kBoot));
  REQUIRE(got.ok());
  std::printf("  kernel start to init %.0f ms, to ready %.0f ms, QEMU to hello %.0f ms\n",
              static_cast<double>(got.value().init_us) / 1000,
              static_cast<double>(got.value().ready_us) / 1000,
              (test::now() - machine.started()) * 1000);
  return got.value();
}

control::Wake some_wake(char seed) {
  return {std::string(control::kSeedSize, seed),
          realtime_ns(),
          text::cat("guest-", seed),
          std::string(control::kSeedSize, seed)};
}

profile::Profile profile_of(const std::string& name) {
  profile::LoadRequest request;
  request.name_or_path = name;
  auto loaded = profile::load(request);
  REQUIRE(loaded.ok());
  return std::move(loaded).value();
}

control::Root host_root() {
  const auto tree = jail::read_host_tree();
  REQUIRE(tree.ok());
  control::Root root;
  root.shares = {{"usr", "/usr", true}, {"etc", "/run/sbx/shares/etc", true}};
  std::vector<jail::HostEntry> all = tree.value().top;
  all.insert(all.end(), tree.value().etc.begin(), tree.value().etc.end());
  for (const jail::HostEntry& entry : all) {
    if (entry.kind == jail::EntryKind::kLink) {
      root.links.push_back({entry.path, entry.text});
    } else if (entry.is_copied) {
      root.files.push_back({entry.path, entry.text});
    } else if (entry.path.starts_with("/etc/")) {
      root.binds.push_back(
          {"/run/sbx/shares" + entry.path, entry.path, entry.kind == jail::EntryKind::kDir});
    }
  }
  return root;
}

MachineOptions host_machine() {
  MachineOptions options;
  options.shares = {{"usr", "/usr"}, {"etc", "/etc"}};
  return options;
}

control::Launched launch(PlainMachine& machine, const control::Launch& wanted) {
  const auto got = control::decode_launched(ask(machine, control::encode(wanted)));
  REQUIRE(got.ok());
  for (const auto& [what, micros] : got.value().spent) {
    std::printf("    %-12s %7.1f ms\n", what.c_str(), static_cast<double>(micros) / 1000);
  }
  return got.value();
}

/// The supervisor's side of one launched jail.
class Inside {
 public:
  explicit Inside(PlainMachine& machine)
      : machine_(machine),
        bridge_(start(machine)),
        channel_(bridge_.take_channel(), ipc::Side::kHost) {}

  /// What the agent says next that is a T.
  template <typename T>
  T expect() {
    while (true) {
      pollfd entry{channel_.fd(), POLLIN, 0};
      const auto ready = sys::poll({&entry, 1}, kCall);
      const bool is_there = ready.ok() && ready.value() == 1;
      const std::string console = is_there ? "" : machine_.console();
      CAPTURE(console);
      REQUIRE(is_there);
      auto got = channel_.receive(ipc::Wait::kYes);
      const std::string error = got.ok() ? "" : got.error().to_string();
      CAPTURE(error);
      REQUIRE(got.ok());
      if (const auto* failed = std::get_if<ipc::SetupFailed>(&got.value().message)) {
        FAIL(failed->step << ": " << failed->call);
      }
      if (const auto* failed = std::get_if<ipc::ExecFailed>(&got.value().message)) {
        FAIL(failed->what << ": errno " << failed->error);
      }
      if (const auto* wanted = std::get_if<T>(&got.value().message)) return *wanted;
    }
  }

  struct Ended {
    int status = -1;  ///< as waitpid(2) gives it
    std::string out;
    std::string err;
  };
  Ended run(std::vector<std::string> argv, const std::string& input = "", int user = -1) {
    auto in = sys::pipe();
    auto out = sys::pipe();
    auto err = sys::pipe();
    REQUIRE((in.ok() && out.ok() && err.ok()));
    ipc::Exec exec;
    exec.id = ++last_;
    exec.argv = std::move(argv);
    exec.env = {"PATH=/usr/bin:/bin", "HOME=/home/sbx"};
    exec.cwd = "/work";
    if (user >= 0) {
      exec.has_user = true;
      exec.uid = exec.gid = static_cast<std::uint32_t>(user);
    }
    const int fds[] = {in.value().r.get(), out.value().w.get(), err.value().w.get()};
    const double begin = test::now();
    REQUIRE(channel_.send(exec, fds).ok());
    in.value().r.reset();
    out.value().w.reset();
    err.value().w.reset();
    REQUIRE(sys::write_all(in.value().w.get(), input).ok());
    in.value().w.reset();
    Ended ended;
    ended.status = expect<ipc::Exited>().wait_status;
    std::printf("  exec %-9s %7.1f ms\n", exec.argv.front().c_str(), (test::now() - begin) * 1000);
    ended.out = sys::read_all(out.value().r.get(), kMostOutput).value();
    ended.err = sys::read_all(err.value().r.get(), kMostOutput).value();
    return ended;
  }
  Ended shell(const std::string& script, const std::string& input = "") {
    return run({"/bin/sh", "-c", script}, input);
  }

 private:
  static constexpr Bytes kMostOutput{1U << 20U};
  static BridgeProcess start(PlainMachine& machine) {
    auto started = start_bridge(machine.take_agent());
    REQUIRE(started.ok());
    return std::move(started).value();
  }

  PlainMachine& machine_;
  BridgeProcess bridge_;
  ipc::Channel channel_;
  std::uint32_t last_ = 0;
};

/// A directory in memory, gone with this.
class Scratch {
 public:
  Scratch() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  ~Scratch() { (void)fs::remove_tree(AT_FDCWD, path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/dev/shm/sbx-vm-XXXXXX";
};

control::Launch launch_of(const profile::Profile& profile) {
  control::Launch wanted;
  wanted.id = "t1";
  wanted.profile = profile::save(profile);
  return wanted;
}

std::string value_of(const control::Launched& launched, const std::string& limit) {
  for (const confine::InForce& each : launched.limits) {
    if (each.limit == limit) return each.value + (each.approximate ? " approximate" : "");
  }
  return "";
}

}  // namespace

TEST_CASE("guest: programs run in it with the host's tree") {
  if (!test::have_machine()) return;
  PlainMachine machine(host_machine());
  const control::Hello said = hello(machine);
  CHECK(said.version == control::kVersion);
  ask(machine, control::encode(some_wake('a')));
  const double woken = test::now();
  ask(machine, control::encode(host_root()));
  profile::Profile profile = profile_of("python");
  profile.limits.memory = Bytes{128U << 20U};
  profile.limits.pids = 40;
  const control::Launched launched = launch(machine, launch_of(profile));
  CHECK(launched.warnings.empty());
  CHECK(value_of(launched, "memory") == "134217728");
  CHECK(value_of(launched, "pids") == "40");
  Inside inside(machine);
  inside.expect<ipc::Ready>();
  std::printf("  wake to ready  %7.1f ms\n", (test::now() - woken) * 1000);
  CHECK(inside.run({"/bin/true"}).status == 0);
  std::printf("  wake to true   %7.1f ms\n", (test::now() - woken) * 1000);
  CHECK(inside.run({"/bin/true"}).status == 0);
  CHECK(inside.run({"echo", "hi"}).out == "hi\n");
  CHECK(inside.run({"python3", "-c", "print(6*7)"}).out == "42\n");
  CHECK(WEXITSTATUS(inside.shell("exit 7").status) == 7);
  CHECK(inside.run({"cat"}, "through stdin").out == "through stdin");
  CHECK(inside.shell("echo no >&2").err == "no\n");
  const auto written = inside.shell("echo x >/work/f && cat /work/f && id -u && touch /usr/x");
  CHECK(written.out == "x\n1000\n");
  CHECK(WEXITSTATUS(written.status) != 0);
  CHECK(inside.shell("cat /etc/machine-id").out == std::string(control::kSeedSize, 'a') + "\n");
  CHECK(inside.shell("unshare -U true; echo $?").out == "1\n");

  // Limits.
  const auto eaten = inside.run({"python3", "-c", "x = b'x' * (300 << 20)"});
  CHECK(WIFSIGNALED(eaten.status));
  CHECK(control::decode_value(ask(machine, ipc::Fields(control::op::kOomKills))).value() == 1);
  const auto forked = inside.shell("for i in $(seq 60); do sleep 1 & done 2>&1; wait");
  CHECK((forked.out + forked.err).find("fork") != std::string::npos);

  const auto usage = control::decode_usage(ask(machine, ipc::Fields(control::op::kUsage)));
  REQUIRE(usage.ok());
  CHECK(usage.value().cpu_ns.value_or(0) > 0);
  CHECK(usage.value().memory.value_or(0) > 0);
  const auto final = control::decode_final(ask(machine, ipc::Fields(control::op::kFinish)));
  REQUIRE(final.ok());
  CHECK(final.value().oom_kills == 1);
  CHECK(final.value().pids_denied > 0);
  ask(machine, ipc::Fields(control::op::kUmountShares));
  ask(machine, ipc::Fields(control::op::kShutdown));
  CHECK(machine.wait_for_end(10));
  CHECK(machine.console().find("sbx-init") == std::string::npos);
}

TEST_CASE("guest: clones of a template differ in all that must differ") {
  if (!test::have_machine()) return;
  const Scratch dir;
  MachineOptions options = host_machine();
  options.ram = dir.path() + "/ram";
  {
    PlainMachine machine(options);
    hello(machine);
    ask(machine, ipc::Fields(control::op::kPrepare));
    machine.save_template();
  }
  options.is_clone = true;
  std::string seen[2];
  for (int i = 0; i < 2; ++i) {
    PlainMachine machine(options);
    ask(machine, ipc::Fields(control::op::kHello));
    const double woken = test::now();
    const double cpu = machine.cpu_ms();
    ask(machine, control::encode(some_wake(static_cast<char>('a' + i))));
    ask(machine, control::encode(host_root()));
    launch(machine, launch_of(profile_of("bash")));
    Inside inside(machine);
    inside.expect<ipc::Ready>();
    std::printf("  wake to ready  %7.1f ms, CPU %7.1f ms\n",
                (test::now() - woken) * 1000,
                machine.cpu_ms() - cpu);
    CHECK(inside.run({"/bin/true"}).status == 0);
    std::printf("  wake to true   %7.1f ms, CPU %7.1f ms\n",
                (test::now() - woken) * 1000,
                machine.cpu_ms() - cpu);
    seen[i] =
        inside
            .shell(
                "cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/random/uuid /etc/machine-id;"
                "head -c 16 /dev/urandom | od -An -tx1; date +%s")
            .out;
    std::printf("%s", seen[i].c_str());
  }
  const auto first = text::split(seen[0], '\n');
  const auto second = text::split(seen[1], '\n');
  REQUIRE(first.size() == 6);
  REQUIRE(second.size() == 6);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(first[i] != second[i]);
  }
  const std::int64_t now = realtime_ns() / 1'000'000'000;
  CHECK(std::abs(std::stoll(std::string(second[4])) - now) < 5);
}
