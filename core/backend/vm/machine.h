// Machine: one virtual machine: QEMU inside one of our own jails, spoken to over inherited sockets.
//
// The jail has no network, the filtered host tree read-only, our system call filter, a control
// group with the limits, and ids that own nothing. It does not speak to what is inside the guest,
// and whether that ever boots is for whoever waits for its hello: see exit_fd() and serial_tail().
//
// Every call that asks QEMU blocks, at most for its deadline (5 s where none is given). A QEMU that
// was taken over may say anything on its socket; it is bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/vm/machine_plan.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "core/confine/cgroup.h"

namespace sbx::vm {

enum class SaveKind : uint8_t {
  kDeviceState,  ///< 150-200 kB; the memory is in Memory, and saved by save_memory()
  kAll,          ///< device state and memory, pages of zeros left out
};

/// kUnsupported with the fix when there is no QEMU on PATH; its absolute path otherwise. It has to
/// be below /usr, which its jail shows.
Result<std::string> find_qemu();
/// Opens /dev/kvm and makes a machine with it. kUnsupported with cause and fix.
Status check_kvm();
/// The same by starting QEMU with it, without a guest: some 70 ms. Some hosts have a KVM whose
/// processor cannot be shown to a guest.
Status try_kvm();

class Machine {
 public:
  /// Starts QEMU; returns once it was executed (5 to 10 ms, on the first call after a boot of the
  /// host and kTcg 30 ms more; with Memory::image the time to copy it, 1 ms for 5 MB). The guest
  /// runs at once unless is_incoming. Errors of the jail as from launch(); kUnsupported without
  /// QEMU or KVM. There is no falling back from KVM.
  static Result<std::unique_ptr<Machine>> start(const MachineSpec& spec);
  /// Kills QEMU and removes what finish() did not.
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Host ends of the ports: SOCK_STREAM, blocking. What is written before the guest opens its port
  /// waits in there. End of file: QEMU has ended. Once each.
  UniqueFd take_agent();
  UniqueFd take_control();
  UniqueFd take_data();

  /// Pollable: readable once QEMU and with it everything in its jail has ended.
  int exit_fd() const;

  /// Stops / continues all processors. Success when it is so already. A guest that was loaded goes
  /// on with cont().
  Status stop();
  Status cont();
  Result<bool> is_running();
  /// Whether QEMU says that it uses KVM.
  Result<bool> is_using_kvm();

  /// Stops the guest and writes its state to `fd` (a file from its offset on, a pipe or a socket),
  /// which stays the caller's. The guest stays stopped; cont() goes on with it. kUnsupported while
  /// a 9p share is mounted inside. kUsage for kDeviceState without own memory.
  Status save(int fd, SaveKind kind, Millis deadline);
  /// With own memory: copies it to the file `fd` from offset 0 on, empty parts as holes. The guest
  /// is stopped. Blocks for 1 ms for 2 to 5 MB that are in use.
  Status save_memory(int fd);
  /// Reads into a machine that is_incoming what save() wrote. Afterwards it stands; cont() lets it
  /// go on. After a failure QEMU may have ended.
  Status load(int fd, SaveKind kind, Millis deadline);

  /// Asks QEMU to end, without asking the guest. Does not wait: see exit_fd().
  Status quit();
  /// SIGKILL. Does not wait.
  Status kill();
  /// Kills what is left, waits until it is gone (bounded), reads the counters of its control group,
  /// removes it. Idempotent.
  Result<backend::FinalState> finish();

  /// The newest bytes, at most 32 KiB, of what the guest wrote to its serial port and QEMU to
  /// stdout and stderr. Hostile: escaped by whoever prints it. Also works after the end.
  std::string serial_tail();
  /// Pollable: there is something for serial_tail(), which keeps the pipe from filling up. A guest
  /// that fills it only stops itself.
  int serial_fd() const;

  /// What QEMU uses; memory of Memory::image counts as ours.
  Result<backend::LiveUsage> usage() const;
  Result<uint64_t> cpu_time() const;
  Result<uint64_t> oom_kills() const;
  /// Limits of QEMU's jail as the kernel says they are, and sentences for the user.
  const std::vector<confine::InForce>& limits() const;
  const std::vector<std::string>& warnings() const;

  /// Asks the guest to shrink or grow to `memory`. Memory that it does not use is given back
  /// without this (free page reporting).
  Status balloon(Bytes memory);

  int qemu_pid() const;  ///< as the host sees it; -1 when it is not known. For tests and messages

 private:
  struct Impl;
  explicit Machine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sbx::vm
