// Launch: the fork that becomes a session's supervisor.
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "core/base/arguments.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/session/daemon.h"
#include "core/session/lifecycle.h"
#include "core/session/store.h"

namespace sbx::session {

namespace {

constexpr int kReportFd = 3;
constexpr mode_t kOwnFile = 0600;

/// stderr goes to the session's log, whose old part is kept once.
Status open_log(const std::string& dir) {
  constexpr off_t kLongest = 1 << 20;
  SBX_ASSIGN(const UniqueFd session, fs::open_dir(dir));
  const auto info = sys::fstatat(session.get(), "log", AT_SYMLINK_NOFOLLOW);
  if (info.ok() && info.value().st_size > kLongest) {
    (void)sys::renameat(session.get(), "log", session.get(), "log.1");
  }
  SBX_ASSIGN(
      const UniqueFd log,
      sys::openat(session.get(), "log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, kOwnFile));
  return sys::dup_onto(log.get(), STDERR_FILENO, false);
}

/// Nothing of the command that started us stays: terminal, directory, descriptors, arguments.
Status leave_caller(const DaemonRequest& request, UniqueFd report) {
  if (::setsid() < 0) return sys_error("start a session of processes");
  SBX_TRY(sys::dup_onto(report.get(), kReportFd, true));
  if (report.get() == kReportFd) (void)report.release();
  SBX_TRY(sys::close_range(kReportFd + 1, ~0U));
  (void)report.release();  // closed above, or the report itself
  SBX_ASSIGN(const UniqueFd null, sys::open("/dev/null", O_RDWR));
  for (int fd = 0; fd < kReportFd; ++fd) {
    SBX_TRY(sys::dup_onto(null.get(), fd, false));
  }
  if (::chdir("/") != 0) return sys_error("change to /");
  SBX_TRY(open_log(text::cat(request.state_dir, "/sessions/", request.record.name)));
  hide_arguments(text::cat("sbx session ", request.record.name).c_str());
  for (const int signo : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE, SIGXFSZ, SIGTSTP}) {
    ::signal(signo, SIG_IGN);
  }
  ::signal(SIGCHLD, SIG_DFL);
  return {};
}

void report_start(const Status& started, const std::vector<std::string>& warnings = {}) {
  Fields fields = started.ok() ? Fields("started") : error_fields(started.error());
  fields.set("warnings", warnings);
  (void)sys::write_all(kReportFd, encode_frame(fields));
  (void)::close(kReportFd);
}

[[noreturn]] void daemon_main(const DaemonRequest& request, UniqueFd report) {
  Status left = leave_caller(request, std::move(report));
  if (!left.ok()) {
    report_start(left);
    ::_exit(1);
  }
  bool has_expired = false;
  {
    Daemon daemon(request);
    const Status started = daemon.start();
    report_start(started, daemon.warnings());
    if (!started.ok()) ::_exit(1);
    daemon.serve();
    has_expired = daemon.has_expired();
  }
  if (has_expired) {
    const auto store = Store::open(request.state_dir);
    if (store.ok()) (void)remove(store.value(), request.record.name, WhenAlive::kRefuse);
  }
  ::_exit(0);
}

}  // namespace

Result<std::vector<std::string>> launch_daemon(const DaemonRequest& request) {
  SBX_ASSIGN(sys::Pipe report, sys::pipe());
  const pid_t pid = ::fork();
  if (pid < 0) return sys_error("fork the session's supervisor");
  if (pid == 0) {
    report.r.reset();
    daemon_main(request, std::move(report.w));
  }
  report.w.reset();
  constexpr Bytes kMost{1 << 20};
  SBX_ASSIGN(const std::string said, sys::read_all(report.r.get(), kMost));
  constexpr std::size_t kLengthSize = 4;
  if (said.size() <= kLengthSize) {
    return Error(Errc::kSystem, "the session's supervisor ended while it started")
        .with_hint(text::cat("see ", request.state_dir, "/sessions/", request.record.name, "/log"));
  }
  SBX_ASSIGN(const Fields fields, decode_frame(std::string_view(said).substr(kLengthSize)));
  if (auto error = error_of(fields)) return *std::move(error);
  return fields.list("warnings");
}

}  // namespace sbx::session
