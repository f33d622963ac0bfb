// Why the kernel refused a user namespace or a mount in one: read off the host after the refusal.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/confine/host_text.h"
#include "core/host/facts.h"

namespace sbx::host {
namespace {

constexpr std::string_view kSysctlClone = "kernel.unprivileged_userns_clone";
constexpr std::string_view kSysctlAppArmor = "kernel.apparmor_restrict_unprivileged_userns";
constexpr std::string_view kSysctlMax = "user.max_user_namespaces";

std::optional<std::string> read(const HostFiles& files, std::string_view path) {
  auto content = fs::read_file(text::cat(files.root, path), Bytes{4U << 20U});
  if (!content.ok()) return std::nullopt;
  return std::string(text::trim(content.value()));
}

std::optional<long> sysctl(const HostFiles& files, std::string_view name) {
  std::string path = text::cat("/proc/sys/", name);
  for (std::size_t i = std::string_view("/proc/sys/").size(); i < path.size(); ++i) {
    if (path[i] == '.') path[i] = '/';
  }
  const auto content = read(files, path);
  if (!content) return std::nullopt;
  long value = 0;
  const char* const end = content->data() + content->size();
  const auto [stop, error] = std::from_chars(content->data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string sysctl_fix(std::string_view name, std::string_view value, std::string_view file) {
  return text::cat("as root: sysctl -w ",
                   name,
                   "=",
                   value,
                   "; to keep it: echo '",
                   name,
                   " = ",
                   value,
                   "' > /etc/sysctl.d/",
                   file);
}

bool exists(const HostFiles& files, std::string_view path) {
  return ::access(text::cat(files.root, path).c_str(), F_OK) == 0;
}

/// The container software around us, if any.
std::optional<std::string_view> container(const HostFiles& files) {
  if (exists(files, "/.dockerenv")) return "docker";
  if (exists(files, "/run/.containerenv")) return "podman";
  if (exists(files, "/var/run/secrets/kubernetes.io")) return "kubernetes";
  if (exists(files, "/run/systemd/container")) return "a container";
  return std::nullopt;
}

/// Whether our root is not that of our mount namespace. Sure only for root, who may look at the
/// root of PID 1; else seen when the chroot is no mount point.
bool is_chroot(const HostFiles& files) {
  struct stat own {};
  struct stat init {};
  if (::stat(text::cat(files.root, "/").c_str(), &own) == 0 &&
      ::stat(text::cat(files.root, "/proc/1/root/").c_str(), &init) == 0) {
    return own.st_dev != init.st_dev || own.st_ino != init.st_ino;
  }
  const auto content = read(files, "/proc/self/mountinfo");
  if (!content || content->empty()) return false;
  const auto lines = confine::parse_mountinfo(*content);
  return std::none_of(lines.begin(), lines.end(), [](const confine::MountLine& line) {
    return line.mount_point == "/";
  });
}

/// Whether a mount covers a part of /proc, as containers do: then the kernel refuses a new proc in
/// a user namespace, which would show that part (mount_too_revealing).
bool is_proc_masked(const HostFiles& files) {
  const auto content = read(files, "/proc/self/mountinfo");
  if (!content) return false;
  const auto lines = confine::parse_mountinfo(*content);
  return std::any_of(lines.begin(), lines.end(), [](const confine::MountLine& line) {
    return line.mount_point.starts_with("/proc/") && line.mount_point != "/proc/sys/fs/binfmt_misc";
  });
}

bool has_seccomp_filter(const HostFiles& files) {
  const auto status = read(files, "/proc/self/status");
  return status && status->find("\nSeccomp:\t2") != std::string::npos;
}

bool is_restricted_by_apparmor(const HostFiles& files) {
  return !files.is_root && sysctl(files, kSysctlAppArmor).value_or(0) == 1;
}

Error refused(std::string_view cause, int err, std::string fix) {
  return sys_error(text::cat("make a user namespace: ", cause), err)
      .with_code(Errc::kDenied)
      .with_hint(std::move(fix));
}

Error apparmor(int err) {
  return refused("AppArmor restricts them for unprivileged users",
                 err,
                 text::cat(sysctl_fix(kSysctlAppArmor, "0", "60-sbx.conf"),
                           "; or give sbx an AppArmor profile with \"userns,\""));
}

Error container_refuses(std::string_view name, int err) {
  return refused(text::cat("the filter of the container around it (", name, ") refuses"),
                 err,
                 "start that container with: --security-opt seccomp=unconfined --security-opt "
                 "apparmor=unconfined --security-opt systempaths=unconfined (or --privileged)");
}

Error explain_denied(int err, const HostFiles& files) {
  if (!files.is_root && sysctl(files, kSysctlClone) == 0) {
    return refused("they are turned off for unprivileged users",
                   err,
                   sysctl_fix(kSysctlClone, "1", "60-sbx.conf"));
  }
  if (is_restricted_by_apparmor(files)) return apparmor(err);
  if (has_seccomp_filter(files)) {
    return container_refuses(container(files).value_or("a seccomp filter"), err);
  }
  if (is_chroot(files)) {
    return refused("the kernel refuses them in a chroot",
                   err,
                   "run sbx outside of the chroot, or enter it with pivot_root "
                   "(systemd-nspawn, unshare --root) instead of chroot");
  }
  return refused(
      "the kernel refuses",
      err,
      text::cat("look at: sysctl ",
                kSysctlClone,
                " ",
                kSysctlMax,
                " ",
                kSysctlAppArmor,
                "; at the kernel's log for a security module: dmesg; a chroot refuses as well"));
}

Error explain_no_room(int err, const HostFiles& files) {
  const auto limit = sysctl(files, kSysctlMax);
  if (limit == 0) {
    return refused("they are turned off (user.max_user_namespaces is 0)",
                   err,
                   sysctl_fix(kSysctlMax, "15000", "60-sbx.conf"));
  }
  if (limit) {
    return refused(text::cat("there are ", *limit, " already, or they are nested too deeply"),
                   err,
                   sysctl_fix(kSysctlMax, std::to_string(*limit * 2), "60-sbx.conf"));
  }
  return refused("there are too many already, or they are nested more than 32 deep",
                 err,
                 text::cat("as root: sysctl -w ", kSysctlMax, "=15000"));
}

}  // namespace

HostFiles::HostFiles() : is_root(::geteuid() == 0) {}

Error explain_userns_failure(int err, const HostFiles& files) {
  switch (err) {
    case EPERM:
    case EACCES:
      return explain_denied(err, files);
    case ENOSPC:
    case EUSERS:
      return explain_no_room(err, files);
    case EINVAL:
      return refused("this kernel has none",
                     err,
                     "use a kernel built with CONFIG_USER_NS=y (Debian's own has it)");
    case ENOSYS:
      if (has_seccomp_filter(files)) {
        return container_refuses(container(files).value_or("a seccomp filter"), err);
      }
      return refused("this kernel has no clone3", err, "use Linux 5.3 or later");
    default:
      return sys_error("make a user namespace", err);
  }
}

Error explain_mount_failure(std::string what, int err, const HostFiles& files) {
  Error error = sys_error(std::move(what), err);
  if (err != EPERM && err != EACCES) return error;
  if (is_restricted_by_apparmor(files)) {
    return std::move(error).with_hint(
        text::cat("AppArmor restricts user namespaces; ",
                  sysctl_fix(kSysctlAppArmor, "0", "60-sbx.conf"),
                  "; or give sbx an AppArmor profile with \"userns,\""));
  }
  if (is_proc_masked(files) || has_seccomp_filter(files)) {
    return std::move(error).with_hint(
        text::cat("the container around it (",
                  container(files).value_or("unknown"),
                  ") hides parts of /proc or refuses mounts; start it with: --security-opt "
                  "systempaths=unconfined --security-opt apparmor=unconfined --security-opt "
                  "seccomp=unconfined (or --privileged)"));
  }
  return error;
}

}  // namespace sbx::host
