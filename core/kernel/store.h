// Store: the guest kernels of one state directory, and those that the host has for all users.
//
//   kernels/NAME/vmlinux      the kernel as an ELF file, as QEMU starts it fastest
//   kernels/NAME/modules/*.ko what it needs of its modules, unpacked
//   kernels/NAME/order        the names of these files, one a line, as they have to be loaded
//   kernels/NAME/config       what it was built with, when that is known
//   kernels/NAME/record.json  what it is (record.h)
//   kernels/initramfs/        see initramfs.h
//   kernels/lock              flock: whoever puts one there or removes something
//   kernels/.tmp-<random>     one that is being made or removed; locked by whoever does it
//
// NAME is the kernel's release ("6.1.0-57-amd64"). A kernel is there as a whole or not at all, and
// never changed. Of the host's own directories only what root alone can have written counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/kernel/record.h"

namespace sbx::kernel {

/// A kernel that is there.
struct Kernel {
  Record record;
  std::string vmlinux;      ///< absolute path
  std::string modules_dir;  ///< absolute path; its files are record.modules
  bool is_system = false;   ///< the host's, for all users: not ours to remove

  const std::string& name() const { return record.name; }
  const Features& features() const { return record.features; }
};

/// Where kernels for all users are looked for; only for tests another list.
std::vector<std::string> system_dirs();

/// The kernel of that name; with "" the newest one, of equal ones that which can do more. A kernel
/// of `state_dir` (absolute, exists) is taken before the host's. kNotFound with how to get one.
Result<Kernel> find(const std::string& state_dir, const std::string& wanted);

/// All, the newest first. What cannot be read is left out, with why in `problems`.
std::vector<Kernel> list(const std::string& state_dir, std::vector<std::string>& problems);
/// The same of given directories for all users.
std::vector<Kernel> list(const std::string& state_dir,
                         const std::vector<std::string>& system,
                         std::vector<std::string>& problems);

/// Removes one of the state directory; what runs with it goes on. kNotFound, or kDenied for one of
/// the host's.
Status remove(const std::string& state_dir, const std::string& name);

/// A letter or digit, then letters, digits and . _ + ~ -, at most 100. kUsage otherwise.
Status check_name(std::string_view name);

/// Which of two releases is newer: < 0, 0, > 0. Numbers count as numbers ("6.10" is above "6.9").
int compare_releases(std::string_view a, std::string_view b);

}  // namespace sbx::kernel
