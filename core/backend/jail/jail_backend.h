// Jail backend: the row of the backend table that runs jobs in Linux namespaces.
#pragma once

#include <memory>

#include "core/backend/backend.h"

namespace sbx::jail {

/// See Backend::begin.
std::shared_ptr<backend::HeadStart> begin_jail(backend::HeadRequest request);

/// The same without what a request says, or the host's tree: PID 1 waits in its namespaces. Fits
/// every plan of a profile without nesting. For a machine that is saved before its job is known.
std::shared_ptr<backend::HeadStart> begin_any_jail();

/// Looks at the host (some dozen reads) and plans; see Backend::plan.
Result<std::unique_ptr<backend::Plan>> plan_jail(const backend::LaunchRequest& request);

/// See Backend::base_layer.
Result<std::string> jail_base_layer(const backend::LaunchRequest& request,
                                    const std::string& layers_dir);

}  // namespace sbx::jail
