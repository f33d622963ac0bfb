// Why the kernel refused a user namespace or a mount in one: read off the host after the refusal.
#include <cerrno>
#include <optional>

#include "core/base/text.h"
#include "core/host/facts.h"

namespace sbx::host {
namespace {

Error refused(std::string_view cause, int err, std::string fix) {
  return sys_error(text::cat("make a user namespace: ", cause), err)
      .with_code(Errc::kDenied)
      .with_hint(std::move(fix));
}

Error apparmor(int err) {
  return refused("AppArmor restricts them for unprivileged users", err, apparmor_fix());
}

Error container_refuses(std::string_view name, int err) {
  return refused(text::cat("the filter of the container around it (", name, ") refuses"),
                 err,
                 text::cat("start that container with: ", kOpenContainer));
}

Error explain_denied(int err, const HostFiles& files) {
  if (!files.is_root && sysctl(files, kSysctlClone) == 0) {
    return refused(
        "they are turned off for unprivileged users", err, sysctl_fix(kSysctlClone, "1"));
  }
  if (is_restricted_by_apparmor(files)) return apparmor(err);
  if (has_seccomp_filter(files)) {
    return container_refuses(container_mark(files).value_or("a seccomp filter"), err);
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
                   sysctl_fix(kSysctlMax, "15000"));
  }
  if (limit) {
    return refused(text::cat("there are ", *limit, " already, or they are nested too deeply"),
                   err,
                   sysctl_fix(kSysctlMax, std::to_string(*limit * 2)));
  }
  return refused("there are too many already, or they are nested more than 32 deep",
                 err,
                 text::cat("as root: sysctl -w ", kSysctlMax, "=15000"));
}

}  // namespace

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
        return container_refuses(container_mark(files).value_or("a seccomp filter"), err);
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
        text::cat("AppArmor restricts user namespaces; ", apparmor_fix()));
  }
  if (is_proc_masked(files) || has_seccomp_filter(files)) {
    return std::move(error).with_hint(
        text::cat("the container around it (",
                  container_mark(files).value_or("unknown"),
                  ") hides parts of /proc or refuses mounts; start it with: ",
                  kOpenContainer));
  }
  return error;
}

}  // namespace sbx::host
