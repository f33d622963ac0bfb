// VM file: an image as one read-only file system that a virtual machine can boot from: erofs, or
// ext4 where mkfs.erofs is missing. It shows what the layers show together, owners as inside.
//
//   vm-files/<64 hex of the image's id>.erofs (or .ext4)   whole and never changed
//   vm-files/.tmp-<random>                                 one that is being made
//   vm-files/lock                                          flock: whoever makes or removes one
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/image/store.h"

namespace sbx::image {

struct VmFile {
  UniqueFd file;     ///< for reading; keeps it when it is swept
  std::string path;  ///< absolute
  std::string type;  ///< "erofs" or "ext4"
  std::uint64_t bytes = 0;
  bool is_new = false;  ///< it was made by this call
};

/// The file of this image, made when it is not there: once for each image id, whoever asks. `type`:
/// "erofs", "ext4", or empty for what is there, else for what can be made. kUnsupported with the
/// package when there is no program that makes one. Blocks.
Result<VmFile> vm_file(const Store& store, const Opened& image, const std::string& type = "");

/// What of vm-files/ belongs to no image (any more), by name. Empty when one is being made.
struct StaleVmFile {
  std::string name;
  std::uint64_t bytes = 0;
};
Result<std::vector<StaleVmFile>> stale_vm_files(const Store& store);
/// Removes it; the bytes that were freed. Does nothing while one is being made.
Result<std::uint64_t> sweep_vm_files(const Store& store);
/// Bytes on the disk of all of them.
std::uint64_t vm_files_use(const std::string& state_dir);

}  // namespace sbx::image
