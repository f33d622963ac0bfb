// Surroundings: what is around us on this host - a container, a chroot, a filter, sysctls - read
// off files below a root that is "" on a real host and a directory in tests.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sbx::host {

/// Where causes are looked for.
struct HostFiles {
  std::string root;
  bool is_root = false;

  HostFiles();
};

inline constexpr std::string_view kSysctlClone = "kernel.unprivileged_userns_clone";
inline constexpr std::string_view kSysctlAppArmor = "kernel.apparmor_restrict_unprivileged_userns";
inline constexpr std::string_view kSysctlMax = "user.max_user_namespaces";

/// The trimmed content of a file of at most 4 MiB; nullopt when it cannot be read. May block where
/// the file system does.
std::optional<std::string> read_host_file(const HostFiles& files, std::string_view path);
/// A sysctl by its dotted name; nullopt when there is none or it is no number.
std::optional<long> sysctl(const HostFiles& files, std::string_view name);
/// "as root: sysctl -w NAME=VALUE; to keep it: …".
std::string sysctl_fix(std::string_view name, std::string_view value);

/// The container software that left its mark in our root, if any. Not proof: images are also used
/// without a container.
std::optional<std::string_view> container_mark(const HostFiles& files);
/// Whether our root is not that of our mount namespace. Sure only for root, who may look at the
/// root of PID 1; else seen when the chroot is no mount point.
bool is_chroot(const HostFiles& files);
/// Whether a mount covers a part of /proc, as containers do: then the kernel refuses a new proc in
/// a user namespace, which would show that part (mount_too_revealing).
bool is_proc_masked(const HostFiles& files);
/// Whether this process is under a seccomp filter already.
bool has_seccomp_filter(const HostFiles& files);
/// Whether Ubuntu's AppArmor keeps user namespaces from programs without a profile of their own.
bool is_restricted_by_apparmor(const HostFiles& files);

/// What starts a container so that sandboxes work in it.
inline constexpr std::string_view kOpenContainer =
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt "
    "systempaths=unconfined (or --privileged)";

/// What mends is_restricted_by_apparmor(): a profile for this program, or the sysctl for all.
std::string apparmor_fix();
/// An AppArmor profile that lets the program at `binary` (absolute) make user namespaces.
std::string apparmor_profile(std::string_view binary);

}  // namespace sbx::host
