// Guest modules: see guest_modules.h.
#include "core/backend/vm/guest_modules.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/landlock.h"

namespace sbx::vm {

namespace {

constexpr Bytes kMostText{64U << 10U};
constexpr auto kFileSystems =
    std::to_array<std::string_view>({"9p", "overlay", "ext4", "erofs", "squashfs"});

Status load(const UniqueFd& dir, const std::string& name) {
  SBX_ASSIGN(const UniqueFd file, sys::openat(dir.get(), name, O_RDONLY | O_NOFOLLOW));
  if (::syscall(SYS_finit_module, file.get(), "", 0) == 0 || errno == EEXIST) return {};
  return sys_error(text::cat("load module ", name));
}

}  // namespace

Status load_modules(const std::string& dir) {
  const Result<std::string> order = fs::read_file(dir + "/order", kMostText);
  if (!order.ok()) {
    return order.error().code() == Errc::kNotFound ? Status() : Status(order.error());
  }
  SBX_ASSIGN(const UniqueFd opened, fs::open_dir(dir));
  for (const std::string_view line : text::split(order.value(), '\n')) {
    const std::string name(text::trim(line));
    if (name.empty()) continue;
    SBX_TRY(load(opened, name));
    (void)sys::unlinkat(opened.get(), name);
  }
  return {};
}

std::vector<std::string> guest_features() {
  std::vector<std::string> out;
  // Lines are "nodev\tNAME" or "\tNAME".
  if (const auto known = fs::read_file("/proc/filesystems", kMostText); known.ok()) {
    for (const std::string_view line : text::split(known.value(), '\n')) {
      const std::string_view name = text::trim(line.substr(line.find('\t') + 1));
      if (std::ranges::find(kFileSystems, name) != kFileSystems.end()) out.emplace_back(name);
    }
  }
  if (const int abi = confine::landlock_abi(); abi > 0) out.push_back(text::cat("landlock=", abi));
  return out;
}

}  // namespace sbx::vm
