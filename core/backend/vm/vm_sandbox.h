// VM sandbox: one virtual machine with a jail in it, as the rest of sbx sees any sandbox.
//
// Messages and streams go over the bridge's process; what a sandbox is asked besides goes over the
// control port, each question with a deadline: a guest that hangs costs time, never the supervisor.
// To pause freezes the jail's programs in the guest and then stops the processors. While these
// stand, a question lets them go on for as long as it takes; the programs stay frozen.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/vm/boot.h"
#include "core/backend/vm/bridge_process.h"
#include "core/backend/vm/control.h"
#include "core/backend/vm/live_dir.h"
#include "core/base/result.h"
#include "core/ipc/channel.h"

namespace sbx::vm {

/// The channel to the bridge's process.
class BridgeLink final : public backend::AgentLink {
 public:
  BridgeLink(UniqueFd channel, Machine& machine)
      : channel_(std::move(channel), ipc::Side::kHost), machine_(machine) {}
  int fd() const override { return channel_.fd(); }
  Status send(const ipc::Message& message, std::span<const int> fds) override;
  Result<ipc::Received> receive() override { return channel_.receive(ipc::Wait::kNo); }
  /// The processors stand: the next message lets them go on first.
  void set_stopped(bool is_stopped) { is_stopped_ = is_stopped; }
  bool is_stopped() const { return is_stopped_; }
  /// Asked before what somebody would wait for without end: programs and copies.
  void set_check(std::function<Status()> check) { check_ = std::move(check); }

 private:
  ipc::Channel channel_;
  Machine& machine_;
  std::function<Status()> check_;
  bool is_stopped_ = false;
};

class VmSandbox final : public backend::Sandbox {
 public:
  /// `data`: the host's end of the data port.
  VmSandbox(
      LiveDir dir, Booted booted, BridgeProcess bridge, UniqueFd data, control::Launched launched);
  ~VmSandbox() override;

  backend::AgentLink& agent() override { return link_; }
  int exit_fd() const override { return machine_->exit_fd(); }
  std::optional<backend::User> stream_owner(
      const std::optional<backend::User>& /*user*/) const override {
    return std::nullopt;  // the pipes inside are the guest's
  }
  Status kill() override;
  Result<uint64_t> cpu_time() const override;
  Result<uint64_t> oom_kills() const override;
  Result<backend::LiveUsage> usage() const override;
  Result<std::vector<backend::ProcessInfo>> processes() const override;
  bool has_freezer() const override { return launched_.has_freezer; }
  Status set_frozen(bool is_frozen) override;
  Result<bool> is_frozen_as(bool is_frozen) const override;
  Status release_killed() override;
  Result<backend::FinalState> finish() override;
  std::span<const backend::InputMount> copies_needed() const override { return {}; }
  Result<UniqueFd> fetch_work() override;

 private:
  Result<ipc::Fields> call(ipc::Fields request, Millis deadline) const;
  Millis answer_time() const;
  Status check_answers() const;
  /// One question; the processors go on for it.
  Result<ipc::Fields> ask(ipc::Fields request) const;
  Status stop_processors() const;
  Status let_processors_go() const;
  Status set_clock();
  Result<backend::FinalState> end_inside();

  LiveDir dir_;
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<ControlClient> control_;
  BridgeProcess bridge_;
  control::Launched launched_;
  mutable BridgeLink link_;
  UniqueFd data_;
  std::optional<backend::FinalState> final_;
  mutable bool is_hung_ = false;  // it did not answer the last question
  mutable bool is_clock_behind_ = false;
  bool has_ended_inside_ = false;  // in order: /work can still be fetched
};

}  // namespace sbx::vm
