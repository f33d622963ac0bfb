// Install: puts a guest kernel into the store: out of the package that the host's archive offers,
// or of a file: a Debian package, a bzImage, or the ELF file that is in one. The host itself stays
// as it is: no package is installed, and nothing is written but to the state directory.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/kernel/store.h"

namespace sbx::kernel {

struct InstallRequest {
  std::string from;       ///< a file; empty: from apt
  std::string package;    ///< for apt; empty: the newest kernel of the distribution
  bool is_cloud = false;  ///< for apt: the small kernel for clouds, which has no 9p
  std::string name;       ///< empty: the kernel's release
  /// Told what takes long before it begins: "download linux-image-… (67M)".
  std::function<void(const std::string&)> tell;
};

struct Installed {
  Kernel kernel;
  bool is_new = true;  ///< false: exactly this was there already
  /// What does not work with it, or is not known to.
  std::vector<std::string> warnings;
};

/// `state_dir`: absolute, exists. A kernel that has the name already is replaced when the new one
/// is complete. Errors as read_package(), ask_apt() and download() have them; kLimit when there is
/// no room. Blocks, long.
Result<Installed> install(const std::string& state_dir, const InstallRequest& request);

}  // namespace sbx::kernel
