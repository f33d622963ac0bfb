// Disk plan: decides where the files of a sandbox live, so that a full disk is ENOSPC inside and
// never the OOM killer. Pure.
//
// Pages of a tmpfs count as memory of whoever wrote them. So files are on a tmpfs as long as the
// disk and its inodes fit under the memory limit with room for the processes; else they go into an
// image file on the state disk, where that can be made; else an explicit limit is refused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/confine/limit_plan.h"

namespace sbx::confine {

struct DiskWishes {
  Wish<Bytes> disk;
  Wish<std::uint64_t> inodes;
  std::optional<Bytes> memory;  ///< of the whole sandbox
  Bytes memory_total;           ///< RAM of the host; 0: not known
  bool best_effort = false;
  bool prefers_image = false;  ///< where one can be made, even when all fits into the memory
  /// Whether an image can be made and mounted, or why not and what to do.
  bool has_images = false;
  std::string no_images_cause;
  std::string no_images_fix;
};

enum class DiskPlace : std::uint8_t { kTmpfs, kImage };

struct DiskPlan {
  DiskPlace place = DiskPlace::kTmpfs;
  Bytes size;
  std::uint64_t inodes = 0;
  std::vector<InForce> expected;      ///< "disk" and "inodes"
  std::vector<std::string> warnings;  ///< at most one
};

Result<DiskPlan> plan_disk(const DiskWishes& wishes);

}  // namespace sbx::confine
