// Worker: see worker.h.
#include "core/image/worker.h"

#include <linux/sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::image {

Result<Worker> Worker::start(std::string_view what, const std::function<std::string()>& body) {
  SBX_ASSIGN(sys::Pipe report, sys::pipe());
  const pid_t self = ::getpid();
  SBX_ASSIGN(Forked forked, fork_pidfd());
  if (forked.pid == 0) {
    die_with_parent_in_child(self);
    report.r.reset();
    const std::string text = body();
    const bool is_sent = sys::write_all(report.w.get(), text).ok();
    ::_exit(is_sent ? 0 : 1);
  }
  return Worker(what, ChildProcess(forked.pid, std::move(forked.pidfd)), std::move(report.r));
}

Result<std::string> Worker::finish(std::size_t cap) {
  auto text = sys::read_all(report_.get(), Bytes{cap});
  report_.reset();  // a child that says too much is not waited for
  SBX_ASSIGN(const int status, child_.wait());
  if (WIFSIGNALED(status)) {
    return Error(Errc::kSystem, text::cat(what_, ": ended by signal ", WTERMSIG(status)))
        .with_hint("the archive may be made to do harm; nothing of it was kept");
  }
  if (!text.ok()) return std::move(text).error().prefixed(what_);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Error(Errc::kSystem, text::cat(what_, ": failed"));
  }
  return text;
}

}  // namespace sbx::image
