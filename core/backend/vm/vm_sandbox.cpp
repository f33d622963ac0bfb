// VM sandbox: see vm_sandbox.h.
#include "core/backend/vm/vm_sandbox.h"

#include <fcntl.h>

#include <algorithm>
#include <ctime>
#include <utility>
#include <variant>

#include "core/archive/unpack.h"
#include "core/backend/vm/data_stream.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

constexpr Millis kAnswer{5'000};
/// Killing everything inside, and what the pipes still hold going out.
constexpr Millis kEnd{20'000};
constexpr Millis kSyncTime{60'000};
/// For a guest that did not answer the last question.
constexpr Millis kHungAnswer{1'000};
constexpr Millis kHungEnd{2'000};
constexpr mode_t kOwnDir = 0700;

std::uint64_t boot_ns() {
  constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
  timespec now{};
  (void)::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

Status BridgeLink::send(const ipc::Message& message, std::span<const int> fds) {
  if (is_stopped_) {
    SBX_TRY(machine_.cont());
    is_stopped_ = false;
  }
  const bool is_waited_for =
      std::holds_alternative<ipc::Exec>(message) || std::holds_alternative<ipc::Files>(message);
  if (is_waited_for && check_) SBX_TRY(check_());
  return channel_.send(message, fds);
}

VmSandbox::VmSandbox(
    LiveDir dir, Booted booted, BridgeProcess bridge, UniqueFd data, control::Launched launched)
    : dir_(std::move(dir)),
      machine_(std::move(booted.machine)),
      control_(std::move(booted.control)),
      bridge_(std::move(bridge)),
      launched_(std::move(launched)),
      link_(bridge_.take_channel(), *machine_),
      data_(std::move(data)) {
  link_.set_check([this] { return check_answers(); });
}

VmSandbox::~VmSandbox() {
  (void)finish();
}

Status VmSandbox::kill() {
  return machine_->kill();
}

Millis VmSandbox::answer_time() const {
  return is_hung_ ? kHungAnswer : kAnswer;
}

/// A guest that hangs costs its deadline once, not with each question.
Result<ipc::Fields> VmSandbox::call(ipc::Fields request, Millis deadline) const {
  auto answer = control_->call(std::move(request), deadline);
  is_hung_ = !answer.ok() && answer.error().code() == Errc::kTimeout;
  return answer;
}

Status VmSandbox::check_answers() const {
  const auto answer = call(ipc::Fields(control::op::kOomKills), answer_time());
  if (answer.ok() || answer.error().code() != Errc::kTimeout) return {};
  return Error(Errc::kTimeout, "the virtual machine does not answer");
}

Status VmSandbox::stop_processors() const {
  SBX_TRY(machine_->stop());
  link_.set_stopped(true);
  is_clock_behind_ = true;
  return {};
}

Status VmSandbox::let_processors_go() const {
  if (!link_.is_stopped()) return {};
  SBX_TRY(machine_->cont());
  link_.set_stopped(false);
  return {};
}

/// The guest's clock stood as long as its processors did.
Status VmSandbox::set_clock() {
  if (!is_clock_behind_) return {};
  SBX_ASSIGN(const control::Wake wake, make_wake({}));
  SBX_TRY(call(control::encode(wake), answer_time()));
  is_clock_behind_ = false;
  return {};
}

Result<ipc::Fields> VmSandbox::ask(ipc::Fields request) const {
  const bool was_stopped = link_.is_stopped();
  SBX_TRY(let_processors_go());
  (void)machine_->serial_tail();  // keeps its pipe from filling up
  auto answer = call(std::move(request), answer_time());
  if (was_stopped) SBX_TRY(stop_processors());
  return answer;
}

Result<uint64_t> VmSandbox::cpu_time() const {
  SBX_ASSIGN(const ipc::Fields answer, ask(ipc::Fields(control::op::kCpuTime)));
  return control::decode_value(answer);
}

Result<uint64_t> VmSandbox::oom_kills() const {
  SBX_ASSIGN(const ipc::Fields answer, ask(ipc::Fields(control::op::kOomKills)));
  return control::decode_value(answer);
}

Result<backend::LiveUsage> VmSandbox::usage() const {
  SBX_ASSIGN(const ipc::Fields answer, ask(ipc::Fields(control::op::kUsage)));
  return control::decode_usage(answer);
}

Result<std::vector<backend::ProcessInfo>> VmSandbox::processes() const {
  SBX_ASSIGN(const ipc::Fields answer, ask(ipc::Fields(control::op::kProcesses)));
  SBX_ASSIGN(std::vector<backend::ProcessInfo> all, control::decode_processes(answer));
  constexpr std::uint64_t kNsPerUs = 1000;
  const std::uint64_t now = boot_ns();
  const auto guest_now = static_cast<std::uint64_t>(answer.number("now_us")) * kNsPerUs;
  for (backend::ProcessInfo& each : all) {
    each.host_pid = 0;  // the guest's numbers mean nothing here, nor do its times
    const std::uint64_t age = guest_now - std::min(each.started_ns, guest_now);
    each.started_ns = now - std::min(age, now);
  }
  return all;
}

Status VmSandbox::set_frozen(bool is_frozen) {
  if (is_frozen && link_.is_stopped()) return {};
  if (!is_frozen) {
    SBX_TRY(let_processors_go());
    SBX_TRY(set_clock());
  }
  SBX_TRY(call(control::flag_request(control::op::kFreeze, is_frozen), answer_time()));
  return {};
}

Result<bool> VmSandbox::is_frozen_as(bool is_frozen) const {
  if (link_.is_stopped()) return is_frozen;
  SBX_ASSIGN(const ipc::Fields answer,
             call(control::flag_request(control::op::kFrozen, is_frozen), answer_time()));
  SBX_ASSIGN(const bool is_so, control::decode_flag(answer));
  if (is_so && is_frozen) SBX_TRY(stop_processors());
  return is_so;
}

Status VmSandbox::release_killed() {
  SBX_TRY(ask(ipc::Fields(control::op::kReleaseKilled)));
  return {};
}

/// The jail inside ends, its counters come out, and everything that was written is with the bridge.
Result<backend::FinalState> VmSandbox::end_inside() {
  SBX_TRY(let_processors_go());
  SBX_ASSIGN(const ipc::Fields answer,
             call(ipc::Fields(control::op::kFinish), is_hung_ ? kHungEnd : kEnd));
  SBX_ASSIGN(backend::FinalState state, control::decode_final(answer));
  has_ended_inside_ = true;
  return state;
}

Result<backend::FinalState> VmSandbox::finish() {
  if (final_.has_value()) return *final_;
  Result<backend::FinalState> inside = end_inside();
  if (inside.ok()) {
    SBX_TRY(control_->call(ipc::Fields(control::op::kSync), kSyncTime));
    final_ = std::move(inside).value();
    return *final_;
  }
  // It hangs, or is gone: the machine ends, and what it counted with it.
  SBX_ASSIGN(final_, machine_->finish());
  return *final_;
}

/// The guest sends /work as a tar stream, which is hostile, over its data port.
Result<UniqueFd> VmSandbox::fetch_work() {
  if (!has_ended_inside_) return Error(Errc::kNotFound, "the guest is gone, and its /work with it");
  SBX_TRY(sys::mkdirat(dir_.fd(), "work", kOwnDir));
  SBX_TRY(control_->call(ipc::Fields(control::op::kGiveWork), kAnswer));
  SBX_TRY(receive_work(
      data_.get(),
      [this](int in) {
        archive::raise_descriptor_limit();
        archive::UnpackRequest request;
        request.path = text::cat("/proc/self/fd/", dir_.fd(), "/work");
        archive::TransferReport report;
        return archive::unpack(request, in, report);
      },
      is_interrupted));
  return sys::openat(dir_.fd(), "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

}  // namespace sbx::vm
