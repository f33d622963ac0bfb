// Base plan: the steps that every jail with the `host` root has in common. Pure.
//
// They depend on the host's tree alone, so PID 1 can carry them out while its supervisor still
// plans the rest.
#pragma once

#include "core/backend/jail/host_tree.h"
#include "core/backend/jail/tree_builder.h"
#include "core/base/result.h"

namespace sbx::jail {

/// Adds them. What they leave to the job's plan: the scratch space, the host name, and whether user
/// namespaces and writing to /proc/sys are allowed.
Status add_base(TreeBuilder& builder, const HostTree& tree);

}  // namespace sbx::jail
