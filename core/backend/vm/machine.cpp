// Machine: see machine.h.
//
// Theory of operation of a start. In this order:
//   1. what is missing on this host is said before anything is made
//   2. a jail whose program is to be QEMU: nothing of the user's is in it but kernel, initramfs and
//      shares, read-only; while its PID 1 sets up:
//   3. the memory file, sockets, disks (opened by us: their names and owners mean nothing inside)
//   4. the exec with all of these as descriptors; its answer is waited for. QEMU's own greeting is
//      not: it is read by the first call that asks it something.
#include "core/backend/vm/machine.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <string_view>
#include <utility>
#include <variant>

#include "core/backend/jail/jail_backend.h"
#include "core/backend/vm/memory_file.h"
#include "core/backend/vm/qmp.h"
#include "core/backend/vm/tsc.h"
#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/ipc/channel.h"

namespace sbx::vm {

namespace {

constexpr Millis kStartDeadline{20'000};
constexpr size_t kTail = size_t{32} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int64_t kNsPerMs = 1'000'000;
constexpr uint32_t kExecId = 1;
/// Threads: processors, and at most 64 for each of disks and shares.
constexpr uint64_t kThreads = 192;
constexpr uint64_t kOpenFiles = 4096;

Status check(const MachineSpec& spec) {
  if (spec.memory.v == 0 || spec.memory.v % kMiB != 0) {
    return Error(Errc::kUsage, "the memory of a virtual machine is not a number of MiB");
  }
  if (spec.cpus == 0) return Error(Errc::kUsage, "a virtual machine without a processor");
  if (machine_fds(spec).count > static_cast<int>(ipc::kMaxMoreFds)) {
    return Error(Errc::kUsage, "too many disks for one virtual machine");
  }
  return {};
}

void add_mount(profile::Profile& profile,
               std::string source,
               std::string target,
               bool is_read_only) {
  profile::Mount mount;
  mount.source = std::move(source);
  mount.target = std::move(target);
  mount.mode = is_read_only ? profile::MountMode::kReadOnly : profile::MountMode::kReadWrite;
  profile.mounts.push_back(std::move(mount));
}

/// The profile of a jail for QEMU.
profile::Profile profile_of(const MachineSpec& spec) {
  profile::Profile profile;
  profile.name = "vm";
  const Bytes overhead = spec.overhead.v != 0 ? spec.overhead : default_overhead(spec);
  profile.limits.memory = Bytes{spec.memory.v + overhead.v};
  profile.limits.pids = kThreads + spec.cpus;
  profile.limits.cpu_millis = spec.limits.cpu_millis;
  profile.limits.open_files = kOpenFiles;
  profile.limits.disk = Bytes{kMiB};
  profile.limits.inodes = 128;
  if (spec.limits.is_explicit) {
    const profile::Origin origin{profile::Layer::kFlag, "the virtual machine"};
    profile.origins["limits.memory"] = origin;
    if (spec.limits.cpu_millis.has_value()) profile.origins["limits.cpus"] = origin;
  }
  add_mount(profile, spec.kernel, kKernelInside, true);
  add_mount(profile, spec.initramfs, kInitramfsInside, true);
  for (size_t i = 0; i < spec.shares.size(); ++i) {
    const Share& share = spec.shares[i];
    if (share.from != Share::From::kHost) continue;
    add_mount(profile, share.path, share_inside(spec, i), share.is_read_only);
    profile.mounts.back().beneath = share.beneath;
  }
  return profile;
}

/// The last line of what QEMU said, for a message; nothing in it is believed.
std::string last_line(std::string_view tail) {
  constexpr size_t kMost = 300;
  tail = text::trim(tail);
  const size_t at = tail.rfind('\n');
  if (at != std::string_view::npos) tail.remove_prefix(at + 1);
  return text::escape(tail.substr(0, kMost));
}

std::string flag(std::string_view name, bool is_on) {
  return text::cat(R"({"capabilities":[{"capability":")",
                   name,
                   R"(","state":)",
                   is_on ? "true" : "false",
                   "}]}");
}

}  // namespace

struct Machine::Impl {
  MachineSpec spec;
  std::unique_ptr<backend::Sandbox> jail;
  std::vector<confine::InForce> limits;
  std::vector<std::string> warnings;
  UniqueFd agent;
  UniqueFd control;
  UniqueFd data;
  UniqueFd serial;
  UniqueFd memory;
  std::optional<Qmp> qmp;
  std::string tail;

  Status launch();
  Status execute(const std::string& qemu);
  Status wait_for_exec();
  Result<std::vector<UniqueFd>> open_disks() const;
  Status make_memory();
  void drain();
  Error explained(Error error);
  Result<QmpMessage> ask(std::string_view command,
                         std::string_view arguments = {},
                         Millis deadline = kQmpDeadline,
                         int fd = -1);
  Status transfer(std::string_view command, int fd, SaveKind kind, Millis deadline);
  Status wait_for_transfer(int64_t until);
};

Status Machine::Impl::launch() {
  const profile::Profile profile = profile_of(spec);
  backend::LaunchRequest request;
  request.profile = &profile;
  request.id = spec.id;
  request.state_dir = spec.state_dir;
  request.is_lasting = spec.is_lasting;
  if (spec.accel == Accel::kKvm) request.devices = {"/dev/kvm"};
  SBX_ASSIGN(const std::unique_ptr<backend::Plan> plan, jail::plan_jail(request));
  SBX_ASSIGN(jail, plan->launch(nullptr));
  limits = plan->limits();
  warnings = plan->warnings();
  return {};
}

Status Machine::Impl::make_memory() {
  if (!spec.own_memory.has_value()) return {};
  SBX_ASSIGN(memory, make_memory_file(spec.memory));
  // QEMU opens it again, by its number.
  if (const auto owner = jail->stream_owner(std::nullopt)) {
    SBX_TRY(sys::fchown(memory.get(), owner->uid, owner->gid));
  }
  if (spec.own_memory->image.empty()) return {};
  SBX_ASSIGN(const UniqueFd image, sys::open(spec.own_memory->image, O_RDONLY));
  return copy_sparse(image.get(), memory.get(), spec.memory);
}

Result<std::vector<UniqueFd>> Machine::Impl::open_disks() const {
  std::vector<UniqueFd> out;
  for (const Disk& disk : spec.disks) {
    const int flags = disk.is_read_only ? O_RDONLY : O_RDWR;
    SBX_ASSIGN(UniqueFd file, sys::open(disk.path, flags));
    SBX_ASSIGN(const struct stat info, sys::fstat(file.get()));
    if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
      return Error(Errc::kUsage, text::cat(disk.path, " is no file to be a disk"));
    }
    out.push_back(std::move(file));
  }
  return out;
}

Status Machine::Impl::execute(const std::string& qemu) {
  SBX_ASSIGN(sys::SocketPair agent_pair, sys::socketpair_stream());
  SBX_ASSIGN(sys::SocketPair control_pair, sys::socketpair_stream());
  SBX_ASSIGN(sys::SocketPair data_pair, sys::socketpair_stream());
  SBX_ASSIGN(sys::SocketPair qmp_pair, sys::socketpair_stream());
  SBX_ASSIGN(sys::Pipe serial_pipe, sys::pipe());
  SBX_TRY(sys::set_nonblocking(serial_pipe.r.get(), true));
  SBX_ASSIGN(const UniqueFd null, sys::open("/dev/null", O_RDONLY));
  SBX_ASSIGN(const std::vector<UniqueFd> disks, open_disks());
  uint64_t khz = 0;
  if (spec.accel == Accel::kTcg) {
    SBX_ASSIGN(khz, tsc_khz(spec.state_dir));
  }
  ipc::Exec exec;
  exec.id = kExecId;
  exec.argv = machine_argv(spec, qemu, khz);
  exec.env = {"PATH=/usr/bin:/bin"};
  exec.cwd = "/work";
  exec.is_last = true;
  exec.more_fds = static_cast<uint32_t>(machine_fds(spec).count);
  std::vector<int> fds{null.get(),
                       serial_pipe.w.get(),
                       serial_pipe.w.get(),
                       agent_pair.b.get(),
                       control_pair.b.get(),
                       data_pair.b.get(),
                       qmp_pair.b.get()};
  if (memory.valid()) fds.push_back(memory.get());
  for (const UniqueFd& disk : disks) {
    fds.push_back(disk.get());
  }
  // A PID 1 that has ended has left a message that says why.
  const Status sent = jail->agent().send(exec, fds);
  if (!sent.ok() && !ipc::is_other_side_gone(sent.error())) return sent;
  agent = std::move(agent_pair.a);
  control = std::move(control_pair.a);
  data = std::move(data_pair.a);
  qmp.emplace(std::move(qmp_pair.a));
  serial = std::move(serial_pipe.r);
  return {};
}

Status Machine::Impl::wait_for_exec() {
  const int64_t until = monotonic_ns() + kStartDeadline.v * kNsPerMs;
  for (;;) {
    const int64_t left = (until - monotonic_ns()) / kNsPerMs;
    std::array<pollfd, 1> polled{{{jail->agent().fd(), POLLIN, 0}}};
    SBX_ASSIGN(const int ready, sys::poll(polled, Millis{std::max<int64_t>(left, 0)}));
    if (ready == 0) return Error(Errc::kTimeout, "QEMU's sandbox does not get ready");
    SBX_ASSIGN(const ipc::Received received, jail->agent().receive());
    if (const auto* step = std::get_if<ipc::SetupFailed>(&received.message)) {
      return Error(Errc::kSystem,
                   text::cat("QEMU's sandbox: ", step->step, ": ", text::escape(step->call)));
    }
    if (const auto* failed = std::get_if<ipc::ExecFailed>(&received.message)) {
      return sys_error(text::cat("start QEMU: ", text::escape(failed->what)), failed->error);
    }
    if (std::holds_alternative<ipc::Started>(received.message)) return {};
    if (!std::holds_alternative<ipc::Ready>(received.message)) {
      return Error(Errc::kProtocol, "QEMU's sandbox says something else than that it is ready");
    }
  }
}

void Machine::Impl::drain() {
  std::array<char, 8192> chunk{};
  // Bounded: a guest may write as fast as we read.
  for (int i = 0; serial.valid() && i < 64; ++i) {
    const auto got = sys::read(serial.get(), chunk.data(), chunk.size());
    if (!got.ok() || got.value() == 0) return;
    tail.append(chunk.data(), got.value());
    if (tail.size() > 2 * kTail) tail.erase(0, tail.size() - kTail);
  }
}

/// What QEMU complained of says more than that its socket was closed.
Error Machine::Impl::explained(Error error) {
  if (error.code() != Errc::kProtocol) return error;
  drain();
  const std::string said = last_line(tail);
  if (said.empty()) return error;
  return Error(error.code(), text::cat(error.message(), "; it last said: ", said));
}

Result<QmpMessage> Machine::Impl::ask(std::string_view command,
                                      std::string_view arguments,
                                      Millis deadline,
                                      int fd) {
  Result<QmpMessage> answer = qmp->execute(command, arguments, deadline, fd);
  if (answer.ok()) return answer;
  return explained(std::move(answer).error());
}

Status Machine::Impl::wait_for_transfer(int64_t until) {
  constexpr timespec kPause{0, 1'000'000};
  for (;;) {
    SBX_ASSIGN(const QmpMessage answer, ask("query-migrate"));
    const std::string status = answer.get("status").value_or("");
    if (status == "completed") return {};
    if (status == "failed" || status == "cancelled") {
      return Error(Errc::kSystem,
                   text::cat("QEMU could not move the state of the machine: ",
                             text::escape(answer.get("error-desc").value_or(status))));
    }
    if (monotonic_ns() >= until) {
      (void)ask("migrate_cancel");
      return Error(Errc::kTimeout, "the state of the machine is not moved in time");
    }
    (void)::nanosleep(&kPause, nullptr);
  }
}

Status Machine::Impl::transfer(std::string_view command, int fd, SaveKind kind, Millis deadline) {
  const int64_t until = monotonic_ns() + deadline.v * kNsPerMs;
  const bool is_apart = kind == SaveKind::kDeviceState;
  if (is_apart && !memory.valid()) {
    return Error(Errc::kUsage, "the state of a machine without its memory, which is QEMU's own");
  }
  SBX_TRY(ask("migrate-set-capabilities", flag("x-ignore-shared", is_apart)));
  // Its default is that of a network.
  SBX_TRY(ask("migrate-set-parameters", R"({"max-bandwidth":1000000000000})"));
  SBX_TRY(ask("getfd", R"({"fdname":"state"})", kQmpDeadline, fd));
  Status begun = [&]() -> Status {
    SBX_TRY(ask(command, R"({"uri":"fd:state"})"));
    return {};
  }();
  if (begun.ok()) return wait_for_transfer(until);
  (void)ask("closefd", R"({"fdname":"state"})");
  return begun;
}

Machine::Machine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Machine::~Machine() = default;

Result<std::unique_ptr<Machine>> Machine::start(const MachineSpec& spec) {
  SBX_TRY(check(spec));
  SBX_ASSIGN(const std::string qemu, find_qemu());
  if (spec.accel == Accel::kKvm) SBX_TRY(check_kvm());
  auto impl = std::make_unique<Impl>();
  impl->spec = spec;
  SBX_TRY(impl->launch());
  SBX_TRY(impl->make_memory());
  SBX_TRY(impl->execute(qemu));
  SBX_TRY(impl->wait_for_exec());
  return std::unique_ptr<Machine>(new Machine(std::move(impl)));  // NOLINT: a private constructor
}

UniqueFd Machine::take_agent() {
  return std::move(impl_->agent);
}

UniqueFd Machine::take_control() {
  return std::move(impl_->control);
}

UniqueFd Machine::take_data() {
  return std::move(impl_->data);
}

int Machine::exit_fd() const {
  return impl_->jail->exit_fd();
}

Status Machine::stop() {
  SBX_TRY(impl_->ask("stop"));
  return {};
}

Status Machine::cont() {
  SBX_TRY(impl_->ask("cont"));
  return {};
}

Result<bool> Machine::is_running() {
  SBX_ASSIGN(const QmpMessage answer, impl_->ask("query-status"));
  return answer.get("running") == "true";
}

Result<bool> Machine::is_using_kvm() {
  SBX_ASSIGN(const QmpMessage answer, impl_->ask("query-kvm"));
  return answer.get("enabled") == "true";
}

Status Machine::save(int fd, SaveKind kind, Millis deadline) {
  SBX_TRY(stop());
  Status saved = impl_->transfer("migrate", fd, kind, deadline);
  if (saved.ok() || saved.error().message().find("VirtFS") == std::string::npos) return saved;
  return std::move(saved)
      .error()
      .with_code(Errc::kUnsupported)
      .with_hint("a machine cannot be saved while it shows directories of the host");
}

Status Machine::save_memory(int fd) {
  if (!impl_->memory.valid()) return Error(Errc::kUsage, "the memory of the machine is QEMU's own");
  SBX_TRY(sys::ftruncate(fd, Bytes{0}));
  SBX_TRY(sys::ftruncate(fd, impl_->spec.memory));
  return copy_sparse(impl_->memory.get(), fd, impl_->spec.memory);
}

Status Machine::load(int fd, SaveKind kind, Millis deadline) {
  if (!impl_->spec.is_incoming) return Error(Errc::kUsage, "a machine that runs cannot be loaded");
  return impl_->transfer("migrate-incoming", fd, kind, deadline);
}

Status Machine::quit() {
  SBX_TRY(impl_->ask("quit"));
  return {};
}

Status Machine::kill() {
  return impl_->jail->kill();
}

Result<backend::FinalState> Machine::finish() {
  return impl_->jail->finish();
}

std::string Machine::serial_tail() {
  impl_->drain();
  const size_t size = impl_->tail.size();
  return size <= kTail ? impl_->tail : impl_->tail.substr(size - kTail);
}

int Machine::serial_fd() const {
  return impl_->serial.get();
}

Result<backend::LiveUsage> Machine::usage() const {
  return impl_->jail->usage();
}

Result<uint64_t> Machine::cpu_time() const {
  return impl_->jail->cpu_time();
}

Result<uint64_t> Machine::oom_kills() const {
  return impl_->jail->oom_kills();
}

const std::vector<confine::InForce>& Machine::limits() const {
  return impl_->limits;
}

const std::vector<std::string>& Machine::warnings() const {
  return impl_->warnings;
}

Status Machine::balloon(Bytes memory) {
  SBX_TRY(impl_->ask("balloon", text::cat(R"({"value":)", memory.v, "}")));
  return {};
}

int Machine::qemu_pid() const {
  const auto all = impl_->jail->processes();
  if (!all.ok() || all.value().empty()) return -1;
  return all.value().front().host_pid;
}

}  // namespace sbx::vm
