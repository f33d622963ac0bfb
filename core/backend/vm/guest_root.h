// Guest root: the file tree of a guest's init, in which the jail is made as on any host.
//
// Theory of operation
//  1. enter_root(), when the machine boots and before any template: a tmpfs with all that depends
//  on
//     no request: proc, sys, dev and what is in it, cgroup v2 with its controllers on, the places
//     of what comes. It is moved onto "/" and entered. A mere chroot would not do: the kernel
//     allows no user namespaces there (user_namespaces(7)), and no pivot_root(2).
//  2. assemble(), on request: shares of the host, images, the state disk.
#pragma once

#include <string>

#include "core/backend/vm/control.h"
#include "core/base/result.h"

namespace sbx::vm {

/// Mounts proc, sys and dev in the initramfs; gives this process its standard descriptors, the
/// console. First of all.
Status mount_first();
/// See above. Once; modules are loaded.
Status enter_root();

class GuestRoot {
 public:
  /// kUsage when there is one already. A failure leaves what was made.
  Status assemble(const control::Root& wanted);
  const control::Root& wanted() const { return wanted_; }
  bool is_assembled() const { return is_assembled_; }

  /// A mounted share keeps the host from saving the machine; see control::op.
  Status mount_shares();
  Status umount_shares();
  bool has_shares() const { return are_shares_mounted_ && !wanted_.shares.empty(); }

  /// Writes all that is in memory to the state disk. Blocks.
  static Status sync();
  static Result<control::Disk> disk();
  /// sync() and unmounts the state disk, so that it is clean. Nothing uses it any more.
  Status close();

 private:
  control::Root wanted_;
  bool is_assembled_ = false;
  bool are_shares_mounted_ = false;
  bool is_state_mounted_ = false;
};

}  // namespace sbx::vm
