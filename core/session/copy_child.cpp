// Copy child: see copy_child.h.
#include "core/session/copy_child.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <new>
#include <utility>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/signals.h"

namespace sbx::session {

namespace {

constexpr int kIn = 3;
constexpr int kOut = 4;
constexpr int kReport = 5;

/// Puts each descriptor at its fixed number and closes all others from 3 on.
Status keep_only(int in, int out, int report) {
  constexpr int kAside = 16;
  const std::array<std::pair<int, int>, 3> places{{{in, kIn}, {out, kOut}, {report, kReport}}};
  std::vector<std::pair<UniqueFd, int>> aside;
  for (const auto& [fd, place] : places) {
    if (fd < 0) continue;
    SBX_ASSIGN(UniqueFd copy, sys::dup(fd, kAside));
    aside.emplace_back(std::move(copy), place);
  }
  for (const auto& [fd, place] : aside) {
    SBX_TRY(sys::dup_onto(fd.get(), place, true));
  }
  for (auto& [fd, place] : aside) {
    (void)fd.release();
  }
  for (const auto& [fd, place] : places) {
    if (fd < 0) (void)::close(place);
  }
  return sys::close_range(kReport + 1, ~0U);
}

/// The command decides what a signal of the terminal means; its child sees the stream end.
void leave_signals_to_parent() {
  for (const int signo : run::kEndingSignals) {
    (void)::signal(signo, SIG_IGN);
  }
  (void)::signal(SIGTSTP, SIG_DFL);
  (void)::signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

Result<CopyChild> start_copy_child(const ChildFds& fds, const ChildWork& work) {
  SBX_ASSIGN(sys::Pipe report, sys::pipe());
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return sys_error("fork our end of the copy");
  if (pid == 0) {
    die_with_parent_in_child(parent);
    leave_signals_to_parent();
    if (!keep_only(fds.in, fds.out, report.w.get()).ok()) ::_exit(1);
    archive::raise_descriptor_limit();
    archive::TransferReport said;
    Status done = work({fds.in < 0 ? -1 : kIn, fds.out < 0 ? -1 : kOut}, said);
    (void)::close(kIn);
    (void)::close(kOut);
    const bool is_ok = done.ok();
    if (!is_ok) said.fail(std::move(done).error());
    (void)sys::write_all(kReport, archive::encode(said));
    ::_exit(is_ok ? 0 : 1);
  }
  SBX_ASSIGN(UniqueFd pidfd, sys::pidfd_open(pid));
  return CopyChild{ChildProcess(pid, std::move(pidfd)), std::move(report.r)};
}

ChildWork relay_work(archive::TransferProgress* progress) {
  return [progress](const ChildFds& fds, archive::TransferReport& report) -> Status {
    std::vector<char> buffer(std::size_t{256} << 10U);
    while (true) {
      SBX_ASSIGN(const std::size_t size, sys::read(fds.in, buffer.data(), buffer.size()));
      if (size == 0) return {};
      SBX_TRY(sys::write_all(fds.out, std::string_view(buffer.data(), size)));
      report.bytes += size;
      if (progress != nullptr) progress->bytes += size;
    }
  };
}

archive::TransferProgress* shared_progress() {
  void* const memory = ::mmap(nullptr,
                              sizeof(archive::TransferProgress),
                              PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS,
                              -1,
                              0);
  return memory == MAP_FAILED ? nullptr : new (memory) archive::TransferProgress{};
}

}  // namespace sbx::session
