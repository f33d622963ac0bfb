// vm_state: a state directory with a guest kernel, for all cases of one build and subject: kernel,
// initramfs and templates are made once.
#pragma once

#include <string>

namespace sbx::test {

/// Made by whoever is first; its case fails when that cannot be done. To be asked after
/// SKIP_UNLESS("vm").
std::string vm_state_dir();

}  // namespace sbx::test
