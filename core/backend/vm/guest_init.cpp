// Guest init: see guest_init.h.
//
// Theory of operation
//  1. proc, sys, dev; modules; the root and what is in it (guest_root.h); the two ports. All of
//  that
//     is in a template that was saved after it.
//  2. Requests of the host, one at a time, in the order that control::op has them: wake before all
//     that draws random numbers, then root, launch. What is asked too early is refused by whom it
//     concerns.
//  3. The bridge has its own watches on the loop. Nothing here waits for the jail but finish().
#include "core/backend/vm/guest_init.h"

#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/vm/control.h"
#include "core/backend/vm/guest_data.h"
#include "core/backend/vm/guest_jail.h"
#include "core/backend/vm/guest_modules.h"
#include "core/backend/vm/guest_port.h"
#include "core/backend/vm/guest_root.h"
#include "core/backend/vm/guest_wake.h"
#include "core/base/loop.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

using ipc::Fields;

std::uint64_t boot_us() {
  constexpr std::uint64_t kMicros = 1'000'000;
  constexpr std::uint64_t kNanosPerMicro = 1000;
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kMicros +
         static_cast<std::uint64_t>(now.tv_nsec) / kNanosPerMicro;
}

[[noreturn]] void power_off() {
  ::sync();
  (void)::reboot(RB_POWER_OFF);
  (void)::reboot(RB_AUTOBOOT);  // QEMU runs with -no-reboot
  ::_exit(1);
}

[[noreturn]] void fail(const Error& error) {
  const std::string line = text::cat("sbx-init: ", text::escape(error.message()), "\n");
  (void)sys::write(STDERR_FILENO, line);
  power_off();
}

Fields done(const Status& status) {
  return status.ok() ? Fields("ok") : ipc::error_fields(status.error());
}

template <typename T>
Fields answered(const Result<T>& result) {
  return result.ok() ? control::encode(result.value()) : ipc::error_fields(result.error());
}

Fields value(const Result<std::uint64_t>& result) {
  if (!result.ok()) return ipc::error_fields(result.error());
  Fields fields("ok");
  fields.set("value", static_cast<std::int64_t>(result.value()));
  return fields;
}

class Init {
 public:
  Init(Loop& loop, UniqueFd agent, UniqueFd control, UniqueFd data, control::Hello hello)
      : loop_(loop),
        data_(std::move(data)),
        jail_(loop, std::move(agent)),
        hello_(std::move(hello)),
        server_(loop,
                std::move(control),
                [this](const Fields& request, const ControlServer::Reply& reply) {
                  answer(request, reply);
                }) {}

  /// Ends that nobody waits for. Our own children are waited for where they are made, and the
  /// jail's PID 1 by finish().
  void reap() const {
    const pid_t jail = jail_.pid();
    while (true) {
      siginfo_t info{};
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      if (info.si_pid == jail) return;
      (void)::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
    }
  }

 private:
  using Handler = Fields (Init::*)(const Fields&);
  struct Row {
    std::string_view op;
    Handler handler;
  };
  static const std::array<Row, 20> kRows;

  void answer(const Fields& request, const ControlServer::Reply& reply);
  /// What the bridge answers later.
  bool answer_later(const Fields& request, const ControlServer::Reply& reply);

  Fields on_hello(const Fields& /*request*/) { return control::encode(hello_); }
  Fields on_prepare(const Fields& /*request*/) {
    jail_.prepare();
    return Fields("ok");
  }
  Fields on_wake(const Fields& request);
  Fields on_root(const Fields& request);
  Fields on_mount_shares(const Fields& /*request*/) { return done(root_.mount_shares()); }
  Fields on_umount_shares(const Fields& request);
  Fields on_launch(const Fields& request);
  Fields on_usage(const Fields& request);
  Fields on_processes(const Fields& request);
  Fields on_cpu_time(const Fields& request);
  Fields on_oom_kills(const Fields& request);
  Fields on_freeze(const Fields& request);
  Fields on_frozen(const Fields& request);
  Fields on_release_killed(const Fields& request);
  Fields on_kill(const Fields& request);
  void on_finish(const ControlServer::Reply& reply);
  Fields on_take_input(const Fields& request);
  Fields on_give_work(const Fields& request);
  Fields on_disk(const Fields& /*request*/) { return answered(GuestRoot::disk()); }
  Fields on_sync(const Fields& /*request*/) { return done(GuestRoot::sync()); }
  Fields on_shutdown(const Fields& request);

  /// What `ask` makes of the sandbox, or that there is none.
  template <typename Ask>
  Fields of_sandbox(Ask ask) {
    const Result<backend::Sandbox*> sandbox = jail_.sandbox();
    return sandbox.ok() ? ask(*sandbox.value()) : ipc::error_fields(sandbox.error());
  }

  Loop& loop_;
  UniqueFd data_;
  std::vector<backend::InputMount> inputs_;
  Watch patience_;
  GuestRoot root_;
  GuestJail jail_;
  std::string machine_id_;
  control::Hello hello_;
  ControlServer server_;
};

constexpr std::array<Init::Row, 20> Init::kRows{{
    {control::op::kHello, &Init::on_hello},
    {control::op::kPrepare, &Init::on_prepare},
    {control::op::kWake, &Init::on_wake},
    {control::op::kRoot, &Init::on_root},
    {control::op::kMountShares, &Init::on_mount_shares},
    {control::op::kUmountShares, &Init::on_umount_shares},
    {control::op::kLaunch, &Init::on_launch},
    {control::op::kUsage, &Init::on_usage},
    {control::op::kProcesses, &Init::on_processes},
    {control::op::kCpuTime, &Init::on_cpu_time},
    {control::op::kOomKills, &Init::on_oom_kills},
    {control::op::kFreeze, &Init::on_freeze},
    {control::op::kFrozen, &Init::on_frozen},
    {control::op::kReleaseKilled, &Init::on_release_killed},
    {control::op::kKill, &Init::on_kill},
    {control::op::kTakeInput, &Init::on_take_input},
    {control::op::kGiveWork, &Init::on_give_work},
    {control::op::kDisk, &Init::on_disk},
    {control::op::kSync, &Init::on_sync},
    {control::op::kShutdown, &Init::on_shutdown},
}};

void Init::answer(const Fields& request, const ControlServer::Reply& reply) {
  if (answer_later(request, reply)) return;
  const std::string op = request.op();
  for (const Row& row : kRows) {
    if (row.op != op) continue;
    const std::uint64_t begin = boot_us();
    Fields fields = (this->*row.handler)(request);
    const std::uint64_t end = boot_us();
    fields.set("took_us", static_cast<std::int64_t>(end - begin));
    fields.set("now_us", static_cast<std::int64_t>(end));
    return reply(std::move(fields));
  }
  reply(ipc::error_fields(Error(Errc::kUsage, text::cat("unknown request ", op))));
}

bool Init::answer_later(const Fields& request, const ControlServer::Reply& reply) {
  const std::string op = request.op();
  if (op == control::op::kFinish) {
    on_finish(reply);
    return true;
  }
  const bool is_quiesce = op == control::op::kQuiesce;
  if (!is_quiesce && op != control::op::kDrain && op != control::op::kResume) return false;
  const Result<Bridge*> bridge = jail_.bridge();
  const Result<std::uint64_t> value =
      is_quiesce ? Result<std::uint64_t>(0U) : control::decode_value(request);
  if (!bridge.ok() || !value.ok()) {
    reply(ipc::error_fields(bridge.ok() ? value.error() : bridge.error()));
  } else if (is_quiesce) {
    bridge.value()->quiesce([reply](std::uint64_t written) {
      Fields fields("ok");
      fields.set("value", static_cast<std::int64_t>(written));
      reply(std::move(fields));
    });
  } else if (op == control::op::kDrain) {
    bridge.value()->drain_wire(value.value(), [reply](const Status& is) { reply(done(is)); });
  } else {
    bridge.value()->resume(static_cast<std::uint32_t>(value.value()));
    reply(Fields("ok"));
  }
  return true;
}

Fields Init::on_wake(const Fields& request) {
  const Result<control::Wake> wanted = control::decode_wake(request);
  if (!wanted.ok()) return ipc::error_fields(wanted.error());
  machine_id_ = wanted.value().machine_id;
  return done(wake(wanted.value()));
}

Fields Init::on_root(const Fields& request) {
  const Result<control::Root> wanted = control::decode_root(request);
  if (!wanted.ok()) return ipc::error_fields(wanted.error());
  return done(root_.assemble(wanted.value()));
}

Fields Init::on_umount_shares(const Fields& /*request*/) {
  if (jail_.is_alive() && root_.has_shares()) {
    return ipc::error_fields(
        Error(Errc::kDenied,
              "the sandbox's files are the host's, which a saved machine cannot hold")
            .with_hint("use an image (--image) for what is to be saved while it runs"));
  }
  return done(root_.umount_shares());
}

Fields Init::on_launch(const Fields& request) {
  if (!root_.is_assembled()) return ipc::error_fields(Error(Errc::kUsage, "there is no root yet"));
  const Result<control::Launch> wanted = control::decode_launch(request);
  if (!wanted.ok()) return ipc::error_fields(wanted.error());
  return answered(jail_.launch(wanted.value(), root_.wanted(), machine_id_, inputs_));
}

Fields Init::on_usage(const Fields& /*request*/) {
  return of_sandbox([](backend::Sandbox& sandbox) { return answered(sandbox.usage()); });
}

Fields Init::on_processes(const Fields& /*request*/) {
  return of_sandbox([](backend::Sandbox& sandbox) { return answered(sandbox.processes()); });
}

Fields Init::on_cpu_time(const Fields& /*request*/) {
  return of_sandbox([](backend::Sandbox& sandbox) { return value(sandbox.cpu_time()); });
}

Fields Init::on_oom_kills(const Fields& /*request*/) {
  return of_sandbox([](backend::Sandbox& sandbox) { return value(sandbox.oom_kills()); });
}

Fields Init::on_freeze(const Fields& request) {
  return of_sandbox([&request](backend::Sandbox& sandbox) {
    return done(sandbox.set_frozen(request.flag("on")));
  });
}

Fields Init::on_frozen(const Fields& request) {
  return of_sandbox([&request](backend::Sandbox& sandbox) {
    const Result<bool> is_so = sandbox.is_frozen_as(request.flag("on"));
    if (!is_so.ok()) return ipc::error_fields(is_so.error());
    Fields fields("ok");
    fields.set("value", is_so.value());
    return fields;
  });
}

Fields Init::on_release_killed(const Fields& /*request*/) {
  return of_sandbox([](backend::Sandbox& sandbox) { return done(sandbox.release_killed()); });
}

Fields Init::on_kill(const Fields& /*request*/) {
  return of_sandbox([](backend::Sandbox& sandbox) { return done(sandbox.kill()); });
}

/// Answered once everything that was written inside is with the host, or that takes too long.
void Init::on_finish(const ControlServer::Reply& reply) {
  constexpr Millis kPatience{8'000};
  const Result<backend::FinalState> state = jail_.finish();
  const Result<Bridge*> bridge = jail_.bridge();
  if (!state.ok() || !bridge.ok()) return reply(answered(state));
  const auto once = std::make_shared<bool>(false);
  const auto answer = [this, once, reply, fields = control::encode(state.value())] {
    if (std::exchange(*once, true)) return;
    patience_.remove();
    reply(fields);
  };
  patience_ = loop_.add_timer(kPatience, answer);
  bridge.value()->when_drained(answer);
}

Fields Init::on_take_input(const Fields& request) {
  const auto taken = take_input(data_.get(), request, inputs_.size());
  if (!taken.ok()) return ipc::error_fields(taken.error());
  inputs_.push_back(taken.value());
  return Fields("ok");
}

Fields Init::on_give_work(const Fields& /*request*/) {
  if (jail_.is_alive() || jail_.work_dir() < 0) {
    return ipc::error_fields(Error(Errc::kUsage, "there is no /work to be given"));
  }
  server_.when_sent([this] {
    const Status given = give_work(data_.get(), jail_.work_dir());
    if (!given.ok()) {
      (void)sys::write(STDERR_FILENO,
                       text::cat("sbx-init: ", text::escape(given.error().message()), "\n"));
    }
  });
  return Fields("ok");
}

/// The answer goes first: with it the disk is known to be clean.
Fields Init::on_shutdown(const Fields& /*request*/) {
  if (jail_.is_alive()) {
    if (const auto state = jail_.finish(); !state.ok()) return ipc::error_fields(state.error());
  }
  jail_.drop();
  server_.when_sent([] { power_off(); });
  return done(root_.close());
}

Result<control::Hello> set_up(UniqueFd& agent, UniqueFd& control, UniqueFd& data) {
  control::Hello hello;
  hello.init_us = boot_us();
  ::umask(0022);
  SBX_TRY(mount_first());
  SBX_TRY(load_modules("/modules"));
  SBX_TRY(enter_root());
  SBX_ASSIGN(agent, open_port(control::kAgentPort));
  SBX_ASSIGN(control, open_port(control::kControlPort));
  SBX_ASSIGN(data, open_port(control::kDataPort));
  utsname names{};
  if (::uname(&names) == 0) hello.kernel = static_cast<const char*>(names.release);
  hello.features = guest_features();
  hello.ready_us = boot_us();
  return hello;
}

Status serve() {
  UniqueFd agent;
  UniqueFd control;
  UniqueFd data;
  SBX_ASSIGN(control::Hello hello, set_up(agent, control, data));
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  (void)::sigaction(SIGPIPE, &ignore, nullptr);
  Loop loop;
  Init init(loop, std::move(agent), std::move(control), std::move(data), std::move(hello));
  SBX_ASSIGN(const Watch children,
             loop.add_signal(SIGCHLD, [&init](const signalfd_siginfo&) { init.reap(); }));
  return loop.run();
}

}  // namespace

bool is_guest_init(std::span<const char* const> argv) {
  return ::getpid() == 1 && !argv.empty() && std::string_view(argv.front()) == "/init";
}

void guest_init_main() {
  const Status ended = serve();
  fail(ended.ok() ? Error(Errc::kInternal, "the loop has ended") : ended.error());
}

}  // namespace sbx::vm
