// Disk file: the sparse ext4 disks that virtual machines write to.
//
// A fresh one is a copy of one that mkfs.ext4 made once for each size (vm/disks/<bytes>.<kind>),
// which takes 1 ms instead of 15. Nothing on the host mounts or reads what a guest wrote there.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

namespace sbx::vm {

enum class DiskKind : std::uint8_t {
  kScratch,  ///< without a journal: nothing of it is wanted after a crash
  kKept,
};

/// A fresh disk without a name, on the state directory's file system. kUnsupported without
/// mkfs.ext4, with the package. Blocks.
Result<UniqueFd> fresh_disk(const std::string& state_dir, Bytes size, DiskKind kind);

/// The same with a name (absolute), 0600: whole and on the disk when it returns, or not there.
/// Nothing to do when it is there.
Status make_disk(const std::string& state_dir, const std::string& path, Bytes size);

}  // namespace sbx::vm
