// Facts: what this host can do, found by looking or by doing it, each once and only when asked.
// `sbx run` pays for nothing it does not need: a user namespace, for instance, is tried by the
// launch itself, and explain_userns_failure() tells afterwards why it did not work.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/confine/cgroup_layout.h"
#include "core/host/surroundings.h"

namespace sbx::host {

struct KernelVersion {
  unsigned major = 0;
  unsigned minor = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of <=> for a pointer
  auto operator<=>(const KernelVersion&) const = default;
};
/// From uname(2)'s release text "6.1.0-18-amd64"; zeros when it makes no sense.
KernelVersion parse_kernel_version(std::string_view release);

/// Whether something works; when not, why and what to do.
struct Ability {
  bool ok = false;
  std::string cause;
  std::string fix;
};

/// Makes a user namespace with mount and pid namespaces in a child, and mounts a tmpfs and a proc
/// in it. About 1 ms; blocks for that long.
Ability probe_userns();

class Facts {
 public:
  /// Effective uid 0.
  bool is_root() const;
  /// Root that may map any id (not root of a small container).
  bool may_map_id_ranges();
  KernelVersion kernel();
  int landlock_abi();
  /// Fails only when /proc cannot be read.
  const Result<confine::CgroupLayout>& cgroups();
  /// probe_userns(), once.
  const Ability& userns();
  /// One line per fact, all of them.
  std::string to_text();

 private:
  std::optional<bool> may_map_;
  std::optional<KernelVersion> kernel_;
  std::optional<int> landlock_;
  std::optional<Result<confine::CgroupLayout>> cgroups_;
  std::optional<Ability> userns_;
};

/// Why clone3 or unshare with CLONE_NEWUSER (and the write of its id maps) failed with `err`: cause
/// and the exact fix.
Error explain_userns_failure(int err, const HostFiles& files = {});
/// Why a mount in a fresh user and mount namespace failed with `err` (AppArmor's restriction lets
/// the namespace be made and then refuses what it is for; a container's masked /proc refuses a new
/// one). `what` names the step, e.g. "mount proc on /proc".
Error explain_mount_failure(std::string what, int err, const HostFiles& files = {});

}  // namespace sbx::host
