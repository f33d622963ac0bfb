// Disk image: an ext4 file system of an exact size on the state disk, which nobody has to clean up.
//
// Theory of operation
//  1. An unnamed sparse file (O_TMPFILE) is formatted by mkfs.ext4 through /proc/self/fd.
//  2. A loop device takes the file, to be let go with its last user (LO_FLAGS_AUTOCLEAR).
//  3. The device is mounted as a detached mount, whose descriptor is all that holds the three.
//  4. What the format left free beyond the limit is taken by files that nobody sees.
// So a crash at any moment leaves neither a file, nor a device, nor a mount.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

namespace sbx::confine {

/// Whether disk images can be made here. Cause and fix are filled when not.
struct DiskImageAbility {
  bool is_able = false;
  std::string cause;
  std::string fix;
};
/// Looks for rights, mkfs.ext4 and loop devices; makes nothing.
DiskImageAbility probe_disk_images();

struct DiskImageRequest {
  std::string dir;           ///< where the file lives (without a name)
  Bytes size;                ///< what its user can write
  std::uint64_t inodes = 0;  ///< what its user can make
  std::uint32_t owner = 0;   ///< host id, user and group, of the root directory
};

/// A detached mount, nosuid and nodev, its root directory empty but for what nobody else may enter.
/// kLimit when the disk below `dir` has not that much space left. Blocks while mkfs.ext4 runs (some
/// 10 ms).
Result<UniqueFd> make_disk_image(const DiskImageRequest& request);

}  // namespace sbx::confine
