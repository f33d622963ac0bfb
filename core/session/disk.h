// Disk: the files in a session's directory that are disks of its virtual machine: the present one
// and those of checkpoints. They are copied and removed as wholes; what is in them only a guest
// reads.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/session/record.h"

namespace sbx::session {

struct DiskCopy {
  std::string file;        ///< a fresh name in `to_dir`
  bool reflinked = false;  ///< the blocks are shared, nothing was copied
};
/// A copy of the disk `file`, with its holes, whole and durable. Nobody may be alive in the session
/// whose disk it is. Blocks.
Result<DiskCopy> copy_disk(int from_dir, const std::string& file, int to_dir);

/// Removes the disks in `dir` that `record` does not name: of checkpoints that are forgotten, and
/// what killed commands left. The caller holds the session's lock.
void sweep_disks(int dir, const Record& record);

}  // namespace sbx::session
