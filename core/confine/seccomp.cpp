// Seccomp: see seccomp.h.
#include "core/confine/seccomp.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "core/confine/seccomp_filters.h"  // made at build time by gen/

namespace sbx::confine {

std::span<const sock_filter> seccomp_program(SeccompProfile profile) noexcept {
  if (profile == SeccompProfile::kNesting) return kNestingFilter;
  if (profile == SeccompProfile::kFiles) return kFilesFilter;
  if (profile == SeccompProfile::kImage) return kImageFilter;
  return kDefaultFilter;
}

int install_seccomp_in_child(SeccompProfile profile) noexcept {
  const std::span<const sock_filter> program = seccomp_program(profile);
  const sock_fprog filter{
      .len = static_cast<unsigned short>(program.size()),
      // The kernel only reads it; its interface has no const.
      .filter = const_cast<sock_filter*>(program.data()),
  };
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0 ? 0 : errno;
}

}  // namespace sbx::confine
