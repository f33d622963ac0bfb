// Files: see files.h.
#include "core/agent/files.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "core/archive/inventory.h"
#include "core/archive/pack.h"
#include "core/archive/transfer.h"
#include "core/archive/unpack.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/caps.h"
#include "core/confine/landlock.h"
#include "core/confine/seccomp.h"

namespace sbx::agent {

namespace {

constexpr int kStream = 3;
constexpr int kReport = 4;
constexpr int kPresent = 5;
constexpr rlim_t kMaxMemory = rlim_t{512} << 20U;
constexpr int kNotReady = 125;

/// Everything but the streams goes: the channel, the claims and cgroups of PID 1.
Status keep_only(std::span<const UniqueFd> fds) {
  // First out of the way, so that no source is overwritten by another's place.
  constexpr int kAside = 16;
  std::array<UniqueFd, 3> aside;
  for (size_t i = 0; i < fds.size(); ++i) {
    SBX_ASSIGN(aside[i], sys::dup(fds[i].get(), kAside));
  }
  for (size_t i = 0; i < fds.size(); ++i) {
    SBX_TRY(sys::dup_onto(aside[i].get(), kStream + static_cast<int>(i), true));
  }
  SBX_TRY(sys::close_range(static_cast<unsigned>(kStream + static_cast<int>(fds.size())), ~0U));
  for (UniqueFd& fd : aside) {
    (void)fd.release();
  }
  return {};
}

/// No signal is blocked or handled; a reader that has gone is an error and not a signal.
void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
  (void)::signal(SIGPIPE, SIG_IGN);
}

/// Relative paths are those of a program that was started in /work.
void enter_workdir() {
  const Result<UniqueFd> dir =
      sys::openat2(AT_FDCWD, "/work", O_PATH | O_DIRECTORY, 0, RESOLVE_NO_MAGICLINKS);
  if (!dir.ok() || ::fchdir(dir.value().get()) != 0) (void)!::chdir("/");
}

Status failed(std::string_view what, int error) {
  if (error == 0) return {};
  return sys_error(std::string(what), error);
}

Status become_payload(const PayloadRules& rules) {
  if (rules.is_changing_ids) {
    SBX_TRY(failed("take the program's user id",
                   confine::become_user_in_child(rules.uid, rules.gid, true, rules.groups)));
  }
  // Root inside reaches files of all users there, as its programs do.
  constexpr confine::CapMask kFiles = confine::CapMask{1} << CAP_DAC_OVERRIDE;
  const confine::CapMask kept = rules.uid == 0 ? rules.root_capabilities & kFiles : 0;
  SBX_TRY(failed("drop capabilities", confine::drop_all_caps_in_child(kept)));
  SBX_TRY(sys::prctl("set no_new_privs", PR_SET_NO_NEW_PRIVS, 1));
  // A change of ids may have made this image of sbx dumpable again (fs.suid_dumpable).
  SBX_TRY(sys::prctl("make the worker undumpable", PR_SET_DUMPABLE, 0));
  return {};
}

Status confine_worker(const PayloadRules& rules) {
  (void)::setsid();
  reset_signals();
  const rlimit memory{kMaxMemory, kMaxMemory};
  const rlimit no_core{0, 0};
  if (::setrlimit(RLIMIT_DATA, &memory) != 0) return sys_error("limit the worker's memory");
  if (::setrlimit(RLIMIT_CORE, &no_core) != 0) return sys_error("turn core dumps off");
  archive::raise_descriptor_limit();
  SBX_TRY(become_payload(rules));
  enter_workdir();
  if (rules.is_using_landlock) {
    SBX_TRY(failed("apply Landlock", confine::landlock_only_beneath_root_in_child()));
  }
  return failed("install the system call filter",
                confine::install_seccomp_in_child(confine::SeccompProfile::kFiles));
}

Status pack(const ipc::Files& request, archive::TransferReport& report) {
  std::optional<archive::Inventory> present;
  if (request.is_resuming) {
    SBX_ASSIGN(present, archive::Inventory::read(kPresent));
  }
  archive::PackRequest pack;
  pack.root = archive::Root::kSandbox;
  pack.path = request.path;
  pack.root_name = request.root_name;
  pack.is_following = request.is_following;
  pack.is_opening_all = true;
  pack.is_announcing_total = request.is_announcing;
  pack.present = present.has_value() ? &*present : nullptr;
  return archive::pack(pack, kStream, report);
}

Status work(const ipc::Files& request, archive::TransferReport& report) {
  if (request.op == ipc::FilesOp::kPack) return pack(request, report);
  archive::UnpackRequest unpack;
  unpack.root = archive::Root::kSandbox;
  unpack.path = request.path;
  unpack.root_name = request.root_name;
  unpack.is_keeping_parts = request.is_resuming;
  if (request.op == ipc::FilesOp::kUnpackAny) unpack.members = archive::Members::kAny;
  if (request.op == ipc::FilesOp::kList) return archive::write_inventory(unpack, kStream);
  return archive::unpack(unpack, kStream, report);
}

[[noreturn]] void run_worker(const ipc::Files& request,
                             std::span<const UniqueFd> fds,
                             const PayloadRules& rules) {
  archive::TransferReport report;
  if (!keep_only(fds).ok()) ::_exit(kNotReady);
  Status ready = confine_worker(rules);
  Status done = ready.ok() ? work(request, report) : std::move(ready);
  (void)::close(kStream);  // the other end need not wait for the report
  const bool is_ok = done.ok();
  if (!is_ok) report.fail(std::move(done).error());
  (void)sys::write_all(kReport, archive::encode(report));
  ::_exit(is_ok ? 0 : 1);
}

}  // namespace

Result<pid_t> start_files(const ipc::Files& request,
                          std::span<const UniqueFd> fds,
                          const PayloadRules& rules) {
  const bool has_inventory = request.op == ipc::FilesOp::kPack && request.is_resuming;
  if (fds.size() != (has_inventory ? 3U : 2U)) {
    return Error(Errc::kProtocol, "a copy without its descriptors");
  }
  const pid_t pid = ::fork();
  if (pid < 0) return sys_error("fork the file worker");
  if (pid == 0) run_worker(request, fds, rules);
  return pid;
}

}  // namespace sbx::agent
