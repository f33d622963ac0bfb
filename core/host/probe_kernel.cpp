// Whether the kernel has the system calls that sbx is made of: by calling each with nothing to do.
#include <linux/sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "core/base/text.h"
#include "core/host/facts.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

struct Call {
  std::string_view name;
  long number;
  std::string_view since;
};
// Newest last. Each is called with arguments that it must refuse; ENOSYS alone means "not there".
constexpr std::array<Call, 11> kCalls{{{"open_tree", SYS_open_tree, "5.2"},
                                       {"move_mount", SYS_move_mount, "5.2"},
                                       {"fsopen", SYS_fsopen, "5.2"},
                                       {"fsconfig", SYS_fsconfig, "5.2"},
                                       {"fsmount", SYS_fsmount, "5.2"},
                                       {"clone3", SYS_clone3, "5.3"},
                                       {"pidfd_open", SYS_pidfd_open, "5.3"},
                                       {"openat2", SYS_openat2, "5.6"},
                                       {"close_range", SYS_close_range, "5.9"},
                                       {"mount_setattr", SYS_mount_setattr, "5.12"},
                                       {"execveat", SYS_execveat, "3.19"}}};

bool is_there(long number) {
  return ::syscall(number, -1, nullptr, -1, -1, 0) >= 0 || errno != ENOSYS;
}

}  // namespace

Finding check_kernel(const DoctorContext& context) {
  Facts facts;
  const KernelVersion version = facts.kernel();
  const std::string tried =
      text::cat("Linux ", version.major, ".", version.minor, ": tried ", kCalls.size(), " calls");
  std::string lacking;
  std::string_view since;
  for (const Call& call : kCalls) {
    if (is_there(call.number)) continue;
    lacking += text::cat(lacking.empty() ? "" : ", ", call.name);
    since = call.since;
  }
  if (lacking.empty()) return works(tried);
  if (has_seccomp_filter(context.files)) {
    return missing(tried,
                   text::cat("the filter of the container around us hides ", lacking),
                   text::cat("start that container with: ", kOpenContainer));
  }
  return missing(tried,
                 text::cat("this kernel has no ", lacking),
                 text::cat("use Linux ", since, " or later"));
}

}  // namespace sbx::host
