// Process identity: see process_identity.h.
#include "core/confine/process_identity.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/host_text.h"

namespace sbx::confine {
namespace {

constexpr Bytes kSmall{16384};

Result<std::uint64_t> our_pid_namespace() {
  SBX_ASSIGN(const struct stat info, sys::fstatat(AT_FDCWD, "/proc/self/ns/pid", 0));
  return std::uint64_t{info.st_ino};
}

Result<std::string> boot_id() {
  SBX_ASSIGN(const std::string text, fs::read_file("/proc/sys/kernel/random/boot_id", kSmall));
  return std::string(text::trim(text));
}

/// Start time of a process that still runs.
Result<std::uint64_t> start_of(pid_t pid) {
  const std::string path = text::cat("/proc/", pid, "/stat");
  SBX_ASSIGN(const std::string text, fs::read_file(path, kSmall));
  const auto stat = parse_proc_stat(text);
  if (!stat) return Error(Errc::kSystem, text::cat("read ", path, ": no start time in it"));
  if (stat->state == 'Z' || stat->state == 'X') return sys_error(text::cat("process ", pid), ESRCH);
  return stat->start_time;
}

}  // namespace

Result<ProcessIdentity> identity_of(pid_t pid) {
  ProcessIdentity out;
  out.pid = pid;
  SBX_ASSIGN(out.start, start_of(pid));
  SBX_ASSIGN(out.pid_namespace, our_pid_namespace());
  SBX_ASSIGN(out.boot, boot_id());
  return out;
}

Life life_of(const ProcessIdentity& process) {
  const auto boot = boot_id();
  if (boot.ok() && boot.value() != process.boot) return Life::kGone;
  const auto space = our_pid_namespace();
  if (!boot.ok() || !space.ok() || space.value() != process.pid_namespace) return Life::kUnknown;
  const auto start = start_of(process.pid);
  return start.ok() && start.value() == process.start ? Life::kAlive : Life::kGone;
}

Result<UniqueFd> open_process(const ProcessIdentity& process) {
  switch (life_of(process)) {
    case Life::kGone:
      return UniqueFd();
    case Life::kUnknown:
      return Error(Errc::kUnsupported,
                   text::cat("process ", process.pid, " lives in another pid namespace"))
          .with_hint("end it from there");
    case Life::kAlive:
      break;
  }
  auto pidfd = sys::pidfd_open(process.pid);
  if (!pidfd.ok()) {
    if (pidfd.error().sys_errno() == ESRCH) return UniqueFd();
    return std::move(pidfd).error();
  }
  // Only now is it certain whose number this was when it was opened.
  if (life_of(process) != Life::kAlive) return UniqueFd();
  return std::move(pidfd).value();
}

Result<pid_t> pid_of(int pidfd) {
  const std::string path = text::cat("/proc/self/fdinfo/", pidfd);
  SBX_ASSIGN(const std::string text, fs::read_file(path, kSmall));
  for (const std::string_view line : text::split(text, '\n')) {
    constexpr std::string_view kKey = "Pid:";
    if (!line.starts_with(kKey)) continue;
    const std::string_view digits = text::trim(line.substr(kKey.size()));
    pid_t pid = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
    if (error == std::errc() && stop == digits.data() + digits.size() && pid > 0) return pid;
  }
  return Error(Errc::kNotFound, text::cat("read ", path, ": the process is gone"));
}

}  // namespace sbx::confine
