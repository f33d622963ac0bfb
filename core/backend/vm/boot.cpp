// Boot: see boot.h.
#include "core/backend/vm/boot.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

#include "core/backend/vm/disk_file.h"
#include "core/backend/vm/templates.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

constexpr Millis kLongestBoot{45'000};  // a busy host that emulates; about 2 s on an idle one
constexpr Millis kHelloSlice{250};
constexpr Millis kAnswer{20'000};
constexpr Millis kSave{30'000};
constexpr std::uint64_t kTemplateBytes = std::uint64_t{192} << 20U;
constexpr std::size_t kSerialShown = 600;

Error interrupted() {
  return sys_error("wait for the virtual machine", EINTR);
}

/// Waits until init answers. Its other end going away means that QEMU has ended.
Status greet(ControlClient& control, Machine& machine) {
  const std::int64_t until = monotonic_now().v + kLongestBoot.v;
  while (true) {
    if (is_interrupted()) return interrupted();
    auto answer = control.call(ipc::Fields(control::op::kHello), kHelloSlice);
    if (answer.ok()) {
      SBX_ASSIGN(const control::Hello hello, control::decode_hello(answer.value()));
      if (hello.version == control::kVersion) return {};
      return Error(Errc::kProtocol, "the guest is of another version of sbx");
    }
    if (answer.error().code() != Errc::kTimeout) {
      return with_serial(std::move(answer).error().prefixed("the guest ended while it booted"),
                         machine);
    }
    (void)machine.serial_tail();  // keeps its pipe from filling up
    if (monotonic_now().v < until) continue;
    return with_serial(
        Error(Errc::kTimeout,
              text::cat("the guest has not come up within ", kLongestBoot.v / 1000, " s")),
        machine);
  }
}

Result<Booted> start(const MachineSpec& spec) {
  Booted booted;
  SBX_ASSIGN(booted.machine, Machine::start(spec));
  booted.control = std::make_unique<ControlClient>(booted.machine->take_control());
  return booted;
}

/// A kernel that hangs early under emulation is known to happen; once more then.
Result<Booted> cold_boot(const MachineSpec& spec) {
  SBX_ASSIGN(Booted booted, start(spec));
  Status up = greet(*booted.control, *booted.machine);
  if (up.ok()) return booted;
  if (up.error().code() != Errc::kTimeout) return std::move(up).error();
  booted.control.reset();
  booted.machine.reset();
  SBX_ASSIGN(Booted again, start(spec));
  SBX_TRY(greet(*again.control, *again.machine));
  return again;
}

/// With disks of its own: what is cached of a user's must not come to be in it.
Status make_template(MachineSpec spec, const VmPlan& plan, int memory, int state) {
  spec.own_memory.emplace();
  spec.id += "-template";
  UniqueFd fresh;
  for (Disk& disk : spec.disks) {
    if (disk.is_read_only) continue;
    SBX_ASSIGN(fresh, fresh_disk(spec.state_dir, plan.disk->size, DiskKind::kScratch));
    disk.path = text::cat("/proc/self/fd/", fresh.get());
  }
  SBX_ASSIGN(const Booted booted, cold_boot(spec));
  SBX_TRY(booted.control->call(ipc::Fields(control::op::kPrepare), kAnswer));
  SBX_TRY(booted.machine->stop());
  SBX_TRY(booted.machine->save(state, SaveKind::kDeviceState, kSave));
  SBX_TRY(booted.machine->save_memory(memory));
  return booted.machine->quit();
}

/// What of the plan, besides the machine, is in a template.
std::string content_of(const VmPlan& plan) {
  return text::cat("image ",
                   plan.image.has_value() ? plan.image->id : "",
                   " disk ",
                   plan.disk.has_value() ? plan.disk->size.v : 0,
                   '\n');
}

Result<Booted> clone(MachineSpec spec, const VmPlan& plan) {
  SBX_ASSIGN(const std::string qemu, find_qemu());
  SBX_ASSIGN(const std::string key, template_key(spec, qemu, content_of(plan)));
  SBX_ASSIGN(const Template made,
             open_template(spec.state_dir, key, Bytes{kTemplateBytes}, [&](int memory, int state) {
               return make_template(spec, plan, memory, state);
             }));
  spec.own_memory.emplace(Memory{text::cat("/proc/self/fd/", made.memory.get())});
  spec.is_incoming = true;
  SBX_ASSIGN(Booted booted, start(spec));
  booted.is_clone = true;
  Status loaded = booted.machine->load(made.state.get(), SaveKind::kDeviceState, kSave);
  if (loaded.ok()) loaded = booted.machine->cont();
  if (!loaded.ok()) {
    return with_serial(std::move(loaded).error().prefixed("start from a template"),
                       *booted.machine);
  }
  return booted;
}

}  // namespace

bool is_interrupted() {
  sigset_t pending;
  if (::sigpending(&pending) != 0) return false;
  for (const int signo : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    if (::sigismember(&pending, signo) == 1) return true;
  }
  return false;
}

Error with_serial(Error error, Machine& machine) {
  const std::string tail = machine.serial_tail();
  std::string_view shown = text::trim(tail);
  if (shown.size() > kSerialShown) shown.remove_prefix(shown.size() - kSerialShown);
  if (shown.empty()) return error;
  std::string hint = error.hint();
  if (!hint.empty()) hint += "; ";
  return std::move(error).with_hint(
      text::cat(hint, "its console ends with: ", text::escape(shown)));
}

Result<control::Wake> make_wake(const std::string& hostname) {
  control::Wake wake;
  wake.seed.resize(control::kSeedSize);
  std::array<unsigned char, 16> id{};
  if (::getrandom(wake.seed.data(), wake.seed.size(), 0) !=
          static_cast<ssize_t>(wake.seed.size()) ||
      ::getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    return sys_error("draw random numbers");
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const unsigned char byte : id) {
    wake.machine_id += kDigits[byte >> 4U];
    wake.machine_id += kDigits[byte & 0xfU];
  }
  wake.realtime_ns = realtime_ns();
  wake.hostname = hostname;
  return wake;
}

Result<Booted> boot(const VmPlan& plan, const std::vector<Disk>& disks) {
  MachineSpec spec = plan.machine;
  spec.disks = disks;
  SBX_ASSIGN(Booted booted, plan.is_warm ? clone(spec, plan) : cold_boot(spec));
  SBX_ASSIGN(const control::Wake wake, make_wake(text::cat("sbx-", spec.id)));
  auto woken = booted.control->call(control::encode(wake), kAnswer);
  if (!woken.ok()) {
    return with_serial(std::move(woken).error().prefixed("wake the guest"), *booted.machine);
  }
  return booted;
}

}  // namespace sbx::vm
