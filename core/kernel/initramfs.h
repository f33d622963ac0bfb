// Initramfs: the first file system of a guest: our own program as /init, the kernel's modules and
// the order in which they are loaded.
//
//   /init            this very program, mode 0755
//   /modules/*.ko    what the kernel needs
//   /modules/order   their names, one a line, as they have to be loaded; always there
//   /dev /proc /sys /new   empty directories;   /dev/console, /dev/null   devices
//
// It is kept as STATE/kernels/initramfs/<64 hex digits>.cpio, whose name tells its content: made
// once for each program and kernel, never changed, readable by all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/kernel/store.h"

namespace sbx::kernel {

/// The absolute path of the file for `kernel`, made when it is not there. kUnsupported when this
/// program could not run in a guest, kLimit when there is no room. Blocks.
Result<std::string> initramfs(const std::string& state_dir, const Kernel& kernel);
/// The same with another program as /init.
Result<std::string> initramfs(const std::string& state_dir,
                              const Kernel& kernel,
                              const std::string& program);

/// Names of the files that belong to this program and one of `kernels`. An error when it cannot be
/// told.
Result<std::vector<std::string>> current_initramfs(const std::vector<Kernel>& kernels);

}  // namespace sbx::kernel
