// Inside: see inside.h.
#include "tests/unit/vm/inside.h"

#include <fcntl.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <doctest/doctest.h>

#include "core/backend/jail/host_tree.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/profile/saved.h"

#include "tests/support/process.h"

namespace sbx::test {

namespace {

constexpr Millis kBoot{60'000};
constexpr Millis kCall{20'000};
constexpr Bytes kMostOutput{1U << 20U};

vm::BridgeProcess start_process(PlainMachine& machine) {
  auto started = vm::start_bridge(machine.take_agent());
  REQUIRE(started.ok());
  return std::move(started).value();
}

}  // namespace

ipc::Fields ask(PlainMachine& machine, ipc::Fields request, Millis deadline) {
  const std::string op = request.op();
  const double begin = now();
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
              (now() - begin) * 1000,
              static_cast<double>(answer.value().number("took_us")) / 1000,
              machine.cpu_ms() - cpu);
  return answer.value();
}

Error refused(PlainMachine& machine, ipc::Fields request) {
  const auto answer = machine.control().call(std::move(request), kCall);
  REQUIRE_FALSE(answer.ok());
  return answer.error();
}

vm::control::Hello hello(PlainMachine& machine) {
  const auto got =
      vm::control::decode_hello(ask(machine, ipc::Fields(vm::control::op::kHello), kBoot));
  REQUIRE(got.ok());
  std::printf("  kernel start to init %.0f ms, to ready %.0f ms, QEMU to hello %.0f ms\n",
              static_cast<double>(got.value().init_us) / 1000,
              static_cast<double>(got.value().ready_us) / 1000,
              (now() - machine.started()) * 1000);
  return got.value();
}

vm::control::Launched launch(PlainMachine& machine, const vm::control::Launch& wanted) {
  const auto got = vm::control::decode_launched(ask(machine, vm::control::encode(wanted)));
  REQUIRE(got.ok());
  for (const auto& [what, micros] : got.value().spent) {
    std::printf("    %-12s %7.1f ms\n", what.c_str(), static_cast<double>(micros) / 1000);
  }
  return got.value();
}

vm::control::Wake some_wake(char seed) {
  return {std::string(vm::control::kSeedSize, seed),
          realtime_ns(),
          text::cat("guest-", seed),
          std::string(vm::control::kSeedSize, seed)};
}

vm::control::Root host_root() {
  const auto tree = jail::read_host_tree();
  REQUIRE(tree.ok());
  vm::control::Root root;
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

profile::Profile profile_of(const std::string& name) {
  profile::LoadRequest request;
  request.name_or_path = name;
  auto loaded = profile::load(request);
  REQUIRE(loaded.ok());
  return std::move(loaded).value();
}

vm::control::Launch launch_of(const profile::Profile& profile) {
  vm::control::Launch wanted;
  wanted.id = "t1";
  wanted.profile = profile::save(profile);
  return wanted;
}

Scratch::Scratch() {
  REQUIRE(::mkdtemp(path_.data()) != nullptr);
}

Scratch::~Scratch() {
  (void)fs::remove_tree(AT_FDCWD, path_);
}

Inside::Inside(PlainMachine& machine)
    : machine_(machine),
      bridge_(start_process(machine)),
      channel_(bridge_.take_channel(), ipc::Side::kHost) {}

ipc::Message Inside::next() {
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
  const ipc::Message& message = got.value().message;
  if (const auto* failed = std::get_if<ipc::SetupFailed>(&message)) {
    FAIL(failed->step << ": " << failed->call);
  }
  if (const auto* failed = std::get_if<ipc::ExecFailed>(&message)) {
    FAIL(failed->what << ": errno " << failed->error);
  }
  return message;
}

ipc::Exec Inside::exec_of(std::vector<std::string> argv, int user) {
  ipc::Exec exec;
  exec.id = ++last_;
  exec.argv = std::move(argv);
  exec.env = {"PATH=/usr/bin:/bin", "HOME=/home/sbx"};
  exec.cwd = "/work";
  if (user >= 0) {
    exec.has_user = true;
    exec.uid = exec.gid = static_cast<std::uint32_t>(user);
  }
  return exec;
}

Inside::Ended Inside::run(std::vector<std::string> argv, const std::string& input, int user) {
  auto in = sys::pipe();
  auto out = sys::pipe();
  auto err = sys::pipe();
  REQUIRE((in.ok() && out.ok() && err.ok()));
  const ipc::Exec exec = exec_of(std::move(argv), user);
  const int fds[] = {in.value().r.get(), out.value().w.get(), err.value().w.get()};
  const double begin = now();
  const double cpu = machine_.cpu_ms();
  REQUIRE(channel_.send(exec, fds).ok());
  in.value().r.reset();
  out.value().w.reset();
  err.value().w.reset();
  REQUIRE(sys::write_all(in.value().w.get(), input).ok());
  in.value().w.reset();
  Ended ended;
  while (true) {
    const auto exited = expect<ipc::Exited>();
    if (exited.id != exec.id) continue;
    ended.status = exited.wait_status;
    break;
  }
  std::printf("  exec %-9s %7.1f ms, CPU %7.1f ms\n",
              exec.argv.front().c_str(),
              (now() - begin) * 1000,
              machine_.cpu_ms() - cpu);
  ended.out = sys::read_all(out.value().r.get(), kMostOutput).value();
  ended.err = sys::read_all(err.value().r.get(), kMostOutput).value();
  return ended;
}

Inside::Ended Inside::shell(const std::string& script, const std::string& input, int user) {
  return run({"/bin/sh", "-c", script}, input, user);
}

void Inside::start(const std::string& script) {
  const Result<UniqueFd> null = sys::open("/dev/null", O_RDWR);
  REQUIRE(null.ok());
  const int fd = null.value().get();
  const int fds[] = {fd, fd, fd};
  REQUIRE(channel_.send(exec_of({"/bin/sh", "-c", script}, -1), fds).ok());
  expect<ipc::Started>();
}

}  // namespace sbx::test
