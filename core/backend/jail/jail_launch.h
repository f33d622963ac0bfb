// Jail launch: the outer half: makes the namespaces, maps, cgroups, and hands PID 1 its plan.
#pragma once

#include <memory>

#include "core/backend/backend.h"
#include "core/backend/jail/jail_plan.h"
#include "core/base/result.h"

namespace sbx::jail {

/// A jail whose PID 1 runs and makes the base, waiting for its plan.
class Begun;
/// Out of line, so that Begun stays an incomplete type for its holders.
struct EndBegun {
  void operator()(Begun* begun) const;
};
using BegunPtr = std::unique_ptr<Begun, EndBegun>;

/// The base that PID 1 is to make.
struct BaseChoice {
  BaseContent content;
  bool may_share_root = true;  ///< false: the plan makes something in the root
  bool is_planned = false;     ///< the plan brings a root that is written to: nothing goes ahead
};

/// Starts PID 1 in its namespaces, where it waits for give_base(). Depends on nothing of a request.
/// Destroying the result ends it.
Result<BegunPtr> begin_bare(const JailBasics& basics, InitMode init);
/// Lets it make the base beside us.
Status give_base(Begun& begun, const JailBasics& basics, const BaseChoice& choice);
/// Both. Takes 0.3 ms.
Result<BegunPtr> begin(const JailBasics& basics, InitMode init, const BaseChoice& choice);

/// Carries `plan` out in `begun` (made with the same basics and mode,
/// and with a base that fits). Set-up inside goes on after
/// it returned, and its failure arrives as a message. `plan.expected` then holds what the kernel
/// says.
Result<std::unique_ptr<backend::Sandbox>> launch(JailPlan& plan, BegunPtr begun);

}  // namespace sbx::jail
