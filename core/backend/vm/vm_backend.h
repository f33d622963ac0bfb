// VM backend: the row of the backend table that runs jobs in virtual machines.
#pragma once

#include <memory>
#include <string>

#include "core/backend/backend.h"
#include "core/profile/profile.h"

namespace sbx::vm {

/// Nothing to begin with before the request is known: null.
std::shared_ptr<backend::HeadStart> begin_vm(backend::HeadRequest request);

/// Looks for QEMU, a kernel and an accelerator, and plans; see Backend::plan. kUnsupported with the
/// fix for what is missing.
Result<std::unique_ptr<backend::Plan>> plan_vm(const backend::LaunchRequest& request);

/// Sessions keep their files on a disk of their own: kUnsupported.
Result<std::string> vm_base_layer(const backend::LaunchRequest& request,
                                  const std::string& layers_dir);

/// Whether a machine could be started with this profile: KVM (unless it wants emulation), QEMU, a
/// guest kernel. The first thing that is missing, with its fix. Takes some ms.
Status check_usable(const profile::Profile& profile, const std::string& state_dir);

}  // namespace sbx::vm
