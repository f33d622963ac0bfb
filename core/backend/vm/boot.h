// Boot: from a plan to a machine whose init listens, with an identity of its own: a clone of a
// template, or booted for itself.
#pragma once

#include <memory>

#include "core/backend/vm/control_client.h"
#include "core/backend/vm/machine.h"
#include "core/backend/vm/vm_plan.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::vm {

struct Booted {
  std::unique_ptr<Machine> machine;
  std::unique_ptr<ControlClient> control;
  bool is_clone = false;
};

/// Starts it with `disks` (in the order of the plan; borrowed) and wakes it: random numbers, clock,
/// host name. Blocks until the guest has answered: some 0.2 s as a clone, seconds else (the first
/// one of a template both). kTimeout with the end of the serial log when it does not come up. A
/// signal that would end us stops it (Errc::kSystem, EINTR).
Result<Booted> boot(const VmPlan& plan, const std::vector<Disk>& disks);

/// What a guest that lives again, or a clone of it, is told first: fresh random numbers, the time,
/// and who it is.
Result<control::Wake> make_wake(const std::string& hostname);

/// `error` with the newest lines of what the guest wrote to its console.
Error with_serial(Error error, Machine& machine);

/// A blocked signal that would end us is waiting (INT, TERM, HUP, QUIT).
bool is_interrupted();

}  // namespace sbx::vm
