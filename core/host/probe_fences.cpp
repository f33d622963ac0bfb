// Whether a process can be fenced: seccomp and Landlock, each put around a child that then tries
// to get out; and a terminal of a sandbox's own.
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/text.h"
#include "core/confine/landlock.h"
#include "core/confine/seccomp.h"
#include "core/host/facts.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

constexpr int kLetThrough = 2;
constexpr int kLeastLandlock = 2;

TrialEnd try_filter() noexcept {
  const int err = confine::install_seccomp_in_child(confine::SeccompProfile::kDefault);
  if (err != 0) return {1, err};
  // Denied by the filter before the kernel looks at the arguments.
  if (::mount(nullptr, "/", nullptr, MS_BIND, nullptr) == 0 || errno != EPERM) {
    return {kLetThrough, errno};
  }
  return {};
}

TrialEnd try_landlock() noexcept {
  const int err = confine::landlock_only_beneath_root_in_child();
  return {err == 0 ? 0 : 1, err};
}

/// A pseudo-terminal of a fresh devpts, as `run -t` makes it.
TrialEnd try_terminal() noexcept {
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return {1, errno};
  if (::mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666") !=
      0) {
    return {2, errno};
  }
  const int master = ::open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0) return {3, errno};
  int unlocked = 0;
  if (::ioctl(master, TIOCSPTLCK, &unlocked) != 0) return {4, errno};
  const int slave = ::ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave < 0) return {4, errno};
  return {};
}

}  // namespace

Finding check_seccomp(const DoctorContext& /*context*/) {
  const std::string tried = "put the filter on a child, which then tried to mount";
  const auto end = try_in_child(try_filter);
  if (!end.ok()) return missing(tried, end.error());
  if (end.value().step == 0) return works(tried);
  if (end.value().step == kLetThrough) {
    return missing(tried,
                   "the filter was accepted, but lets calls through",
                   "run sbx on a kernel of its own architecture (not under qemu-user)");
  }
  return missing(tried,
                 sys_error("install a seccomp filter", end.value().err).message(),
                 "use a kernel built with CONFIG_SECCOMP_FILTER=y (Debian's own has it)");
}

Finding check_landlock(const DoctorContext& /*context*/) {
  const int abi = confine::landlock_abi();
  const std::string tried = text::cat("put Landlock (ABI ", abi, ") on a child");
  if (abi == 0) {
    return weak("asked for the ABI",
                "this kernel has no Landlock, or it is not among its security modules",
                "boot with lsm=landlock,… (see cat /sys/kernel/security/lsm), on Linux 5.19 or "
                "later");
  }
  if (abi < kLeastLandlock) {
    return weak(tried, "ABI 1 would forbid renames between directories", "use Linux 5.19 or later");
  }
  const auto end = try_in_child(try_landlock);
  if (!end.ok()) return weak(tried, end.error().message(), end.error().hint());
  if (end.value().step == 0) return works(tried);
  return weak(tried, sys_error("restrict a process with Landlock", end.value().err).message(), "");
}

Finding check_terminal(const DoctorContext& /*context*/) {
  const std::string tried = "opened a pseudo-terminal of a fresh devpts in a user namespace";
  const auto end = try_in_namespaces(CLONE_NEWUSER | CLONE_NEWNS, try_terminal);
  if (!end.ok()) return missing(tried, end.error());
  switch (end.value().step) {
    case 0:
      return works(tried);
    case 1:
    case 2:
      return missing(tried, explain_mount_failure("mount devpts on /dev/pts", end.value().err));
    case 3:
      return missing(tried,
                     sys_error("open a pseudo-terminal", end.value().err)
                         .with_hint("as root: sysctl -w kernel.pty.max=4096"));
    default:
      return missing(tried, sys_error("open its other end", end.value().err));
  }
}

}  // namespace sbx::host
