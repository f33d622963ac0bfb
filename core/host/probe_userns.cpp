// Whether a user namespace can be made and used: by making one and mounting in it.
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/idmap.h"
#include "core/host/facts.h"

namespace sbx::host {
namespace {

constexpr int kProcStep = 64;  // added to the errno in the exit status; both fit below 256

/// Waits for the id maps, then does what every sandbox starts with. The exit status.
[[noreturn]] void try_in_child(int go) noexcept {
  char byte = 0;
  if (::read(go, &byte, 1) != 1) ::_exit(EPIPE);
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(errno & 63);
  if (::mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, nullptr) != 0) ::_exit(errno & 63);
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    ::_exit(kProcStep + (errno & 63));
  }
  ::_exit(0);
}

Ability failed(const Error& error) {
  return {.ok = false, .cause = error.message(), .fix = error.hint()};
}

}  // namespace

Ability probe_userns() {
  auto go = sys::pipe();
  if (!go.ok()) return failed(go.error());
  int raw_pidfd = -1;
  clone_args args{};
  args.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_PIDFD;
  args.exit_signal = SIGCHLD;
  args.pidfd = reinterpret_cast<std::uintptr_t>(&raw_pidfd);
  const auto pid = sys::clone3(args);
  if (!pid.ok()) return failed(explain_userns_failure(pid.error().sys_errno()));
  if (pid.value() == 0) {
    ::close(go.value().w.get());
    try_in_child(go.value().r.get());
  }
  ChildProcess child(pid.value(), UniqueFd(raw_pidfd));
  const std::array<confine::IdMap, 1> uid{{{.inside = 0, .outside = ::geteuid(), .count = 1}}};
  const std::array<confine::IdMap, 1> gid{{{.inside = 0, .outside = ::getegid(), .count = 1}}};
  const Status mapped = confine::write_idmaps(pid.value(), uid, gid, true);
  if (!mapped.ok()) return failed(explain_userns_failure(mapped.error().sys_errno()));
  const Status started = sys::write_all(go.value().w.get(), "g");
  if (!started.ok()) return failed(started.error());
  const auto status = child.wait();
  if (!status.ok()) return failed(status.error());
  if (!WIFEXITED(status.value())) {
    return {.ok = false, .cause = "the child that tried it was killed", .fix = {}};
  }
  const int code = WEXITSTATUS(status.value());
  if (code == 0) return {.ok = true, .cause = {}, .fix = {}};
  if (code >= kProcStep) {
    return failed(
        explain_mount_failure("mount proc on /proc in a new pid namespace", code - kProcStep));
  }
  return failed(explain_mount_failure("mount tmpfs on /tmp in a new user namespace", code));
}

}  // namespace sbx::host
