// Batch worker: see batch_worker.h.
//
// Theory of operation: orders and answers are frames of one header and its bytes, over a stream
// socket. Both ends are one program that was forked, so that the frames are plain structs. The
// worker has one order at a time.
#include "core/run/batch_worker.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::run {

namespace {

constexpr int kLinkFd = 3;
constexpr std::size_t kMuch = std::size_t{1} << 20U;

struct OrderHeader {
  std::uint64_t line;
  std::uint64_t size;
};

struct DoneHeader {
  std::uint64_t report_size;
  std::uint64_t warnings_size;
  std::int32_t exit_status;
  std::int32_t cause;
};

template <typename Header>
std::string bytes_of(const Header& header) {
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

/// False at the end of the stream.
Result<bool> read_exactly(int fd, char* into, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    SBX_ASSIGN(const std::size_t n, sys::read(fd, into + at, size - at));
    if (n == 0) return false;
    at += n;
  }
  return true;
}

/// The surroundings of a worker. What it inherited is copies: closing them is no loss.
Status settle(UniqueFd link, pid_t parent) {
  // We end with the batch, however that ends; the sandbox ends with us (its link is closed).
  SBX_TRY(sys::prctl("set the parent's death signal", PR_SET_PDEATHSIG, SIGKILL));
  if (::getppid() != parent) ::_exit(1);
  (void)::setpgid(0, 0);  // Ctrl-C of a terminal is for the batch, which passes it on once
  SBX_ASSIGN(UniqueFd null, sys::open("/dev/null", O_RDWR));
  SBX_TRY(sys::dup_onto(null.get(), STDIN_FILENO, false));
  SBX_TRY(sys::dup_onto(null.get(), STDOUT_FILENO, false));
  if (link.get() != kLinkFd) SBX_TRY(sys::dup_onto(link.get(), kLinkFd, true));
  (void)null.release();
  (void)link.release();
  SBX_TRY(sys::close_range(kLinkFd + 1, ~0U));
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (const int signo : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    ::sigaddset(&blocked, signo);
  }
  return ::sigprocmask(SIG_SETMASK, &blocked, nullptr) == 0 ? Status() : sys_error("sigprocmask");
}

/// Serves until the orders end.
Status serve(const Work& work) {
  while (true) {
    OrderHeader header{};
    SBX_ASSIGN(const bool is_there,
               read_exactly(kLinkFd, reinterpret_cast<char*>(&header), sizeof header));
    if (!is_there) return {};
    WorkOrder order{.line = header.line, .text = std::string(header.size, '\0')};
    SBX_ASSIGN(const bool is_whole, read_exactly(kLinkFd, order.text.data(), order.text.size()));
    if (!is_whole) return {};
    const WorkDone done = work(order);
    const DoneHeader answer{.report_size = done.report.size(),
                            .warnings_size = done.warnings.size(),
                            .exit_status = done.exit_status,
                            .cause = static_cast<std::int32_t>(done.cause)};
    SBX_TRY(sys::write_all(kLinkFd, text::cat(bytes_of(answer), done.warnings)));
    SBX_TRY(sys::write_all(kLinkFd, done.report));
  }
}

[[noreturn]] void be_worker(UniqueFd link, pid_t parent, const Work& work) noexcept {
  // Out of memory is all that throws: this process ends by it (SIGABRT), and one job fails.
  if (!settle(std::move(link), parent).ok()) ::_exit(1);
  ::_exit(serve(work).ok() ? 0 : 1);
}

}  // namespace

Result<BatchWorker> BatchWorker::start(const Work& work) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return sys_error("make a socket pair for a worker");
  }
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return sys_error("fork a worker");
  if (pid == 0) be_worker(std::move(theirs), parent, work);
  auto pidfd = sys::pidfd_open(pid);
  if (!pidfd.ok()) {
    (void)::kill(pid, SIGKILL);
    (void)::waitpid(pid, nullptr, 0);
    return std::move(pidfd).error();
  }
  ChildProcess process(pid, std::move(pidfd).value());
  SBX_TRY(sys::set_nonblocking(ours.get(), true));
  return BatchWorker(std::move(process), std::move(ours));
}

Status BatchWorker::give(const WorkOrder& order) {
  const OrderHeader header{.line = order.line, .size = order.text.size()};
  return sys::write_all(link_.get(), text::cat(bytes_of(header), order.text));
}

bool BatchWorker::is_receiving_much() const {
  DoneHeader header{};
  if (received_.size() < sizeof header) return false;
  std::memcpy(&header, received_.data(), sizeof header);
  return header.report_size > kMuch;
}

Result<std::optional<WorkDone>> BatchWorker::receive() {
  DoneHeader header{};
  std::array<char, 65536> piece{};
  while (true) {
    const ssize_t n = ::read(link_.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return std::optional<WorkDone>();
    if (n <= 0) return Error(Errc::kProtocol, "the worker process ended");
    received_.append(piece.data(), static_cast<std::size_t>(n));
    if (received_.size() < sizeof header) continue;
    std::memcpy(&header, received_.data(), sizeof header);
    if (received_.size() == sizeof header + header.warnings_size + header.report_size) break;
    received_.reserve(sizeof header + header.warnings_size + header.report_size);
  }
  WorkDone done;
  done.cause = static_cast<supervise::Cause>(header.cause);
  done.exit_status = header.exit_status;
  done.warnings = received_.substr(sizeof header, header.warnings_size);
  done.report = received_.substr(sizeof header + header.warnings_size);
  received_.clear();
  if (received_.capacity() > kMuch) received_.shrink_to_fit();
  return std::optional<WorkDone>(std::move(done));
}

Result<int> BatchWorker::end() {
  link_.reset();
  return process_.wait();
}

Status adopt_orphans() {
  SBX_TRY(sys::prctl("adopt orphans", PR_SET_CHILD_SUBREAPER, 1));
  return {};
}

void reap_orphans() {
  constexpr Millis kStep{10};
  constexpr int kSteps = 200;
  for (int i = 0; i < kSteps; ++i) {
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0) return;  // no child is left
    static_cast<void>(sys::poll({}, kStep));
  }
}

}  // namespace sbx::run
