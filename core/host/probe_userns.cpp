// Whether a user namespace can be made and used: by making one and mounting in it.
#include <linux/sched.h>
#include <sys/mount.h>

#include <cerrno>

#include "core/base/text.h"
#include "core/host/facts.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

constexpr int kTmpfsStep = 2;
constexpr int kProcStep = 3;

/// What every sandbox starts with.
TrialEnd start_of_a_sandbox() noexcept {
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return {1, errno};
  if (::mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, nullptr) != 0) {
    return {kTmpfsStep, errno};
  }
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    return {kProcStep, errno};
  }
  return {};
}

Ability failed(const Error& error) {
  return {.ok = false, .cause = error.message(), .fix = error.hint()};
}

}  // namespace

Ability probe_userns() {
  const auto end =
      try_in_namespaces(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, start_of_a_sandbox);
  if (!end.ok()) return failed(end.error());
  switch (end.value().step) {
    case 0:
      return {.ok = true, .cause = {}, .fix = {}};
    case kProcStep:
      return failed(
          explain_mount_failure("mount proc on /proc in a new pid namespace", end.value().err));
    default:
      return failed(
          explain_mount_failure("mount tmpfs on /tmp in a new user namespace", end.value().err));
  }
}

Finding check_userns(const DoctorContext& /*context*/) {
  const Ability ability = probe_userns();
  if (ability.ok) return works("made user, mount and pid namespaces, mounted tmpfs and proc there");
  return missing("make user, mount and pid namespaces, mount tmpfs and proc there",
                 ability.cause,
                 ability.fix);
}

}  // namespace sbx::host
