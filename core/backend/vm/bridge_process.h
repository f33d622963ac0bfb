// Bridge process: the host's end of a bridge in a process of its own, which alone reads what a
// guest says before it is checked.
//
// It has no capabilities and can get none (no_new_privs), cannot be looked at or traced (not
// dumpable), can open no file (where the kernel has Landlock), has the system calls of a job and no
// descriptors but its own, is a session of its own, and dies with the process that started it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/base/process.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "core/ipc/fields.h"

namespace sbx::vm {

/// What a bridge at rest says.
struct BridgeRest {
  uint64_t written = 0;  ///< bytes that the guest has to have read before it is at rest too
  std::string state;     ///< for start_bridge() of the next one; opaque, may hold megabytes
};

class BridgeProcess {
 public:
  BridgeProcess(BridgeProcess&&) noexcept = default;
  BridgeProcess& operator=(BridgeProcess&&) noexcept = default;
  /// Kills the process if it lives: what it has not delivered by then is lost.
  ~BridgeProcess() = default;

  /// The supervisor's end of the channel (SEQPACKET), for ipc::Channel with Side::kHost. Once.
  UniqueFd take_channel() { return std::move(channel_); }
  int pid() const { return process_.pid(); }
  /// Readable once it has ended: everything was delivered, or its readers are gone.
  int pidfd() const { return process_.pidfd(); }

  /// Brings it to rest: reads the wire until `guest_written` bytes have come (what the guest's
  /// bridge said), and stops. Nothing may be sent on the channel any more. Blocks, at most for
  /// `timeout` (kTimeout).
  Result<BridgeRest> rest(uint64_t guest_written, Millis timeout);
  /// Undoes rest(): goes on over the same wire, whose guest is told the same number. Blocks
  /// shortly.
  Status resume(uint32_t epoch);

  /// Why it ended; nullopt as long as it lives. Does not block. Success: the sandbox ended in
  /// order. Else what was wrong with the wire, or kInternal when the process was killed.
  std::optional<Status> result();
  /// Waits for its end, at most for `timeout`; false when it goes on. Blocks.
  Result<bool> wait(Millis timeout);

  BridgeProcess(ChildProcess process, UniqueFd channel, UniqueFd control, UniqueFd state)
      : process_(std::move(process)),
        channel_(std::move(channel)),
        control_(std::move(control)),
        state_(std::move(state)) {}

 private:
  Result<ipc::Fields> ask(const ipc::Fields& order, Millis timeout);

  ChildProcess process_;
  UniqueFd channel_;
  UniqueFd control_;
  UniqueFd state_;  // memory that it writes its state to
  std::optional<Status> result_;
};

/// Forks the process for one wire (a stream socket, the host's end of the machine's port). `epoch`
/// and `state` as in BridgeOptions: with a state, the first messages on the channel are one
/// ipc::Running for each exec that lives.
Result<BridgeProcess> start_bridge(UniqueFd wire, uint32_t epoch = 1, std::string state = {});

}  // namespace sbx::vm
