// VM sandbox: see vm_sandbox.h.
#include "core/backend/vm/vm_sandbox.h"

#include <fcntl.h>

#include <utility>

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
constexpr mode_t kOwnDir = 0700;

}  // namespace

Status BridgeLink::send(const ipc::Message& message, std::span<const int> fds) {
  if (is_stopped_) {
    SBX_TRY(machine_.cont());
    is_stopped_ = false;
  }
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
      data_(std::move(data)) {}

VmSandbox::~VmSandbox() {
  (void)finish();
}

Status VmSandbox::kill() {
  return machine_->kill();
}

Result<ipc::Fields> VmSandbox::ask(ipc::Fields request, Millis deadline) const {
  const bool was_stopped = link_.is_stopped();
  if (was_stopped) SBX_TRY(machine_->cont());
  auto answer = control_->call(std::move(request), deadline);
  if (was_stopped) SBX_TRY(machine_->stop());
  return answer;
}

Result<uint64_t> VmSandbox::cpu_time() const {
  SBX_ASSIGN(const ipc::Fields answer, ask(ipc::Fields(control::op::kCpuTime), kAnswer));
  return control::decode_value(answer);
}

Result<uint64_t> VmSandbox::oom_kills() const {
  SBX_ASSIGN(const ipc::Fields answer, ask(ipc::Fields(control::op::kOomKills), kAnswer));
  return control::decode_value(answer);
}

Result<backend::LiveUsage> VmSandbox::usage() const {
  SBX_ASSIGN(const ipc::Fields answer, ask(ipc::Fields(control::op::kUsage), kAnswer));
  return control::decode_usage(answer);
}

Result<std::vector<backend::ProcessInfo>> VmSandbox::processes() const {
  SBX_ASSIGN(const ipc::Fields answer, ask(ipc::Fields(control::op::kProcesses), kAnswer));
  SBX_ASSIGN(std::vector<backend::ProcessInfo> all, control::decode_processes(answer));
  for (backend::ProcessInfo& each : all) {
    each.host_pid = 0;  // the guest's numbers mean nothing here
  }
  return all;
}

Status VmSandbox::set_frozen(bool is_frozen) {
  if (!is_frozen && link_.is_stopped()) {
    SBX_TRY(machine_->cont());
    link_.set_stopped(false);
  }
  if (is_frozen && link_.is_stopped()) return {};
  SBX_TRY(control_->call(control::flag_request(control::op::kFreeze, is_frozen), kAnswer));
  return {};
}

Result<bool> VmSandbox::is_frozen_as(bool is_frozen) const {
  if (link_.is_stopped()) return is_frozen;
  SBX_ASSIGN(const ipc::Fields answer,
             control_->call(control::flag_request(control::op::kFrozen, is_frozen), kAnswer));
  SBX_ASSIGN(const bool is_so, control::decode_flag(answer));
  if (is_so && is_frozen) {
    SBX_TRY(machine_->stop());
    link_.set_stopped(true);
  }
  return is_so;
}

Status VmSandbox::release_killed() {
  SBX_TRY(ask(ipc::Fields(control::op::kReleaseKilled), kAnswer));
  return {};
}

/// The jail inside ends, its counters come out, and everything that was written is with the bridge.
Result<backend::FinalState> VmSandbox::end_inside() {
  if (link_.is_stopped()) {
    SBX_TRY(machine_->cont());
    link_.set_stopped(false);
  }
  SBX_ASSIGN(const ipc::Fields answer, control_->call(ipc::Fields(control::op::kFinish), kEnd));
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
