// Assemble: the last part of planning: from the steps that were built to those that PID 1 gets.
// Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "core/backend/jail/jail_plan.h"

namespace sbx::jail {

/// Fills in plan.steps (and plan.base_objects where the root is kept) from all steps in order, of
/// which the first `base_size` are the base's; adds what plan.staged and plan.root ask for, and
/// gives each step the numbers of its descriptors.
void assemble(JailPlan& plan, std::vector<confine::Step> built, size_t base_size);

}  // namespace sbx::jail
