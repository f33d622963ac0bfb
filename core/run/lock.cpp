// Lock: taking it, waiting for it, ending its holder.
//
// Theory of operation
// 1. flock(2) on an open file description decides. To wait for it with a deadline, a forked child
//    blocks in flock on the same description: once it has the lock and ends, the lock is ours.
// 2. Whoever takes the lock first looks what the file says. A holder that did not sign off was
//    killed; PID 1 of its sandbox may live some milliseconds longer than itself. It is ended and
//    waited for, so that two jobs of one lock are never alive together.
// 3. Then the file says who we are, and, before the program is started, who our PID 1 is.
// 4. kill: the holder is found by pid and start time through a pidfd. When the lock went to
// somebody
//    else meanwhile, that one is ended too, unless it began after us: then we are the one that was
//    replaced.
#include "core/run/lock.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/loop.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/signals.h"

namespace sbx::run {

namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr Millis kLook{50};          // how often the holder is looked at
constexpr Millis kGrace{5000};       // a run that is asked to end takes up to 3 s
constexpr Millis kInitEnds{10'000};  // a killed PID 1 takes its namespace with it

/// Blocks until the lock is there; only system calls.
[[noreturn]] void flock_in_child(int fd, pid_t parent) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(EOWNERDEAD);
  while (::flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) ::_exit(errno);
  }
  ::_exit(0);
}

Result<ChildProcess> start_waiting(int fd) {
  const pid_t parent = ::getpid();
  SBX_ASSIGN(Forked forked, fork_pidfd());
  if (forked.pid == 0) flock_in_child(fd, parent);
  return ChildProcess(forked.pid, std::move(forked.pidfd));
}

/// Ends what a killed holder left alive, and sees it gone. Blocks.
Status end_sandbox(const confine::ProcessIdentity& init) {
  auto opened = confine::open_process(init);
  if (!opened.ok()) return std::move(opened).error();
  const UniqueFd& pidfd = opened.value();
  if (!pidfd.valid()) return {};
  static_cast<void>(sys::pidfd_send_signal(pidfd.get(), SIGKILL));  // else it ends by itself
  std::array<pollfd, 1> ended{{{pidfd.get(), POLLIN, 0}}};
  SBX_ASSIGN(const int ready, sys::poll(ended, kInitEnds));
  if (ready > 0) return {};
  return sys_error(text::cat("the sandbox of a killed run is still alive: process ", init.pid),
                   EBUSY)
      .with_hint(text::cat("kill -9 ", init.pid));
}

/// The wait for a lock, on a loop of its own.
class Waiting {
 public:
  Waiting(const LockRequest& request, std::function<std::optional<Holder>()> look)
      : request_(request), look_(std::move(look)) {}

  Result<LockEnd> run(int fd) {
    SBX_ASSIGN(self_, confine::identity_of(::getpid()));
    for (const int signo : kEndingSignals) {
      if (is_ignored(signo)) continue;
      SBX_ASSIGN(Watch watch, loop_.add_signal(signo, [this](const signalfd_siginfo& info) {
        signal_ = static_cast<int>(info.ssi_signo);
        end(LockEnd::kInterrupted);
      }));
      signals_.push_back(std::move(watch));
    }
    SBX_ASSIGN(ChildProcess child, start_waiting(fd));
    const Watch got = loop_.add_pidfd(child.pidfd(), [this] { end(LockEnd::kTaken); });
    Watch deadline;
    if (request_.deadline_ns.has_value()) {
      const Millis left{
          std::max<std::int64_t>(0, (*request_.deadline_ns - monotonic_ns()) / kNsPerMs)};
      deadline = loop_.add_timer(left, [this] { end(LockEnd::kDeadline); });
    }
    if (request_.overlap == Overlap::kKill) look();
    SBX_TRY(loop_.run());
    if (error_.has_value()) return *std::move(error_);
    if (end_ != LockEnd::kTaken) return *end_;
    SBX_ASSIGN(const int status, child.wait());
    if (status == 0) return LockEnd::kTaken;
    return sys_error("wait for the lock", WIFEXITED(status) ? WEXITSTATUS(status) : EINTR);
  }

  int signal() const { return signal_; }
  const std::optional<Holder>& holder() const { return holder_; }

 private:
  void end(LockEnd how) {
    if (!end_.has_value()) end_ = how;
    loop_.stop();
  }

  /// Asks the holder of the moment to end, and comes back.
  void look() {
    const auto now = look_();
    if (now.has_value() && (!holder_.has_value() || now->process != holder_->process)) {
      holder_ = now;
      asked_ns_ = monotonic_ns();
      if (!is_to_be_replaced(*now, self_)) return end(LockEnd::kSkipped);
      if (!signal_holder(SIGTERM)) return;
    } else if (holder_.has_value() && asked_ns_ != 0 &&
               monotonic_ns() - asked_ns_ > kGrace.v * kNsPerMs) {
      asked_ns_ = 0;
      if (!signal_holder(SIGKILL)) return;
    }
    timer_ = loop_.add_timer(kLook, [this] { look(); });
  }

  bool signal_holder(int signo) {
    auto opened = confine::open_process(holder_->process);
    Status sent;
    if (!opened.ok()) {
      sent = std::move(opened).error();
    } else if (opened.value().valid()) {
      sent = sys::pidfd_send_signal(opened.value().get(), signo);
    }
    if (sent.ok() || sent.error().sys_errno() == ESRCH) return true;
    error_ = std::move(sent).error().prefixed("end the run that holds the lock");
    loop_.stop();
    return false;
  }

  const LockRequest& request_;
  std::function<std::optional<Holder>()> look_;
  Loop loop_;
  confine::ProcessIdentity self_;
  std::optional<Holder> holder_;
  std::int64_t asked_ns_ = 0;
  std::optional<LockEnd> end_;
  std::optional<Error> error_;
  int signal_ = 0;
  std::vector<Watch> signals_;
  Watch timer_;
};

}  // namespace

std::optional<Overlap> parse_overlap(std::string_view word) {
  if (word == "skip") return Overlap::kSkip;
  if (word == "wait") return Overlap::kWait;
  if (word == "kill") return Overlap::kKill;
  return std::nullopt;
}

bool is_to_be_replaced(const Holder& holder, const confine::ProcessIdentity& self) {
  if (holder.process.boot != self.boot) return true;
  return holder.process.start <= self.start;
}

Result<RunLock> RunLock::open(const std::string& state_dir, const std::string& name) {
  const std::string what = text::cat("lock ", name);
  constexpr mode_t kPrivate = 0700;
  const fs::OwnerUmask mask;
  SBX_ASSIGN(const UniqueFd state, fs::open_dir(state_dir));
  const Status made = sys::mkdirat(state.get(), "locks", kPrivate);
  if (!made.ok() && made.error().code() != Errc::kExists) return Error(made.error()).prefixed(what);
  SBX_ASSIGN(const UniqueFd dir,
             sys::openat(state.get(), "locks", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  constexpr mode_t kOwn = 0600;
  auto fd = sys::openat(dir.get(), name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, kOwn);
  if (!fd.ok()) return std::move(fd).error().prefixed(what);
  return RunLock(std::move(fd).value(), name);
}

RunLock::~RunLock() {
  if (!fd_.valid() || !own_.has_value()) return;
  static_cast<void>(write(nullptr));
  // Closing alone would leave it to a child of ours that has the descriptor still.
  static_cast<void>(::flock(fd_.get(), LOCK_UN));
}

std::optional<Holder> RunLock::read() const {
  std::string text(kLockTextSize, '\0');
  const ssize_t n = ::pread(fd_.get(), text.data(), text.size(), 0);
  if (n <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(n));
  return parse_lock(text);
}

Status RunLock::write(const Holder* holder) {
  // One block that stays allocated, so that a full disk stops nobody from signing off.
  const std::string text = lock_text(holder);
  const ssize_t n = ::pwrite(fd_.get(), text.data(), text.size(), 0);
  if (n == static_cast<ssize_t>(text.size())) return {};
  return sys_error(text::cat("write lock ", name_), n < 0 ? errno : ENOSPC);
}

Result<bool> RunLock::try_take() {
  while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return sys_error(text::cat("lock ", name_));
  }
  return true;
}

Status RunLock::taken(const LockRequest& request) {
  const auto former = read();
  if (former.has_value() && former->init.has_value()) SBX_TRY(end_sandbox(*former->init));
  Holder own;
  SBX_ASSIGN(own.process, confine::identity_of(::getpid()));
  own.run = request.run;
  own.since_ns = realtime_ns();
  SBX_TRY(write(&own));
  own_ = std::move(own);
  return {};
}

Result<LockEnd> RunLock::take(const LockRequest& request) {
  SBX_ASSIGN(const bool is_free, try_take());
  LockEnd end = LockEnd::kTaken;
  if (!is_free) {
    other_ = read();
    if (request.overlap == Overlap::kSkip) return LockEnd::kSkipped;
    if (request.before_waiting) request.before_waiting();
    SBX_ASSIGN(end, wait(request));
  }
  if (end == LockEnd::kTaken) SBX_TRY(taken(request));
  return end;
}

Result<LockEnd> RunLock::wait(const LockRequest& request) {
  Waiting waiting(request, [this] { return read(); });
  auto end = waiting.run(fd_.get());
  signal_ = waiting.signal();
  if (waiting.holder().has_value()) other_ = waiting.holder();
  return end;
}

Status RunLock::note_sandbox(int init_pidfd) {
  if (!own_.has_value()) return {};
  SBX_ASSIGN(const pid_t pid, confine::pid_of(init_pidfd));
  SBX_ASSIGN(own_->init, confine::identity_of(pid));
  return write(&*own_);
}

}  // namespace sbx::run
