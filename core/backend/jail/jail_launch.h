// Jail launch: the outer half: makes the namespaces, maps, cgroups, and hands PID 1 its plan.
#pragma once

#include <memory>
#include <string>

#include "core/backend/backend.h"
#include "core/backend/jail/jail_plan.h"
#include "core/base/result.h"

namespace sbx::jail {

/// Starts what `plan` says. Blocks for about two milliseconds; set-up inside goes on after it
/// returned, and its failure arrives as a message. `plan.expected` then holds what the kernel says.
Result<std::unique_ptr<backend::Sandbox>> launch(JailPlan& plan);

}  // namespace sbx::jail
