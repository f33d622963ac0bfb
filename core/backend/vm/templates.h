// Templates: memory images of machines that have booted and wait for their first request, made once
// for each shape of a machine and started from many times.
//
//   vm/templates/<key>/memory   the guest's memory, with holes
//   vm/templates/<key>/state    the state of its devices
//   vm/templates/lock           flock: whoever makes or removes one
//
// <key> is a digest of everything that shapes it: QEMU, kernel, initramfs (and so this program),
// machine, and what the host's processor is. There is nothing of a user in it. A template is whole
// or not there, and never changed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/vm/machine.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::vm {

/// Open for reading, so that it stays although it is swept.
struct Template {
  UniqueFd memory;
  UniqueFd state;
};

/// What a template of this machine is called. Reads facts of QEMU's and the kernel's file, not
/// their content; the initramfs is named by its content already. `content`: what else shapes it.
Result<std::string> template_key(const MachineSpec& spec,
                                 const std::string& qemu,
                                 std::string_view content);

/// Makes the image in the two files. The machine is stopped.
using MakeTemplate = std::function<Status(int memory, int state)>;

/// The template of that key, made by `make` when it is not there: once, whoever asks. Blocks.
/// kLimit when there is no room for `most` bytes in the state directory.
Result<Template> open_template(const std::string& state_dir,
                               const std::string& key,
                               Bytes most,
                               const MakeTemplate& make);

/// One that nobody has started from for so long, or that was being made by somebody who is gone.
struct StaleTemplate {
  std::string name;
  std::uint64_t bytes = 0;  ///< on the disk
  bool is_partial = false;
};
/// None while one is being made.
std::vector<StaleTemplate> stale_templates(const std::string& state_dir, Millis unused_for);
/// Machines that were started from it go on. Nothing happens while one is being made.
Status remove_template(const std::string& state_dir, const std::string& name);

}  // namespace sbx::vm
