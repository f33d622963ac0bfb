// Process: spawn() and the owner of its child.
//
// Theory of operation
//   1. parent   resolves the program, builds argv and envp, and moves every descriptor the child
//               shall have above the numbers it will get, so that no dup3 can overwrite another.
//   2. parent   clone3(CLONE_PIDFD): a fork; nothing between here and exec may allocate.
//   3. child    signals to default, chdir, dup3 onto 0 1 2 and the passed numbers, closes the rest.
//   4. child    execve; when anything failed, the errno and the step go through the error pipe.
//   5. parent   reads the pipe: end of file means that exec succeeded (close-on-exec).
#include "core/base/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx {
namespace {

enum class ChildStep : std::uint8_t { kSignals, kDirectory, kDescriptors, kExec };

/// What the child sends when it fails. One struct smaller than PIPE_BUF: written at once.
struct ChildFailure {
  int err;
  ChildStep step;
};

/// A descriptor of the parent and the number it gets in the child.
struct Placement {
  int from;
  int to;
};

/// All the child needs, made before the clone.
struct ChildPlan {
  std::vector<std::string> programs;  // to be tried in this order
  std::vector<const char*> program_paths;
  std::vector<char*> argv;
  std::vector<char*> envp;
  const char* cwd = nullptr;
  std::vector<Placement> placements;  // ascending by `to`
  std::vector<UniqueFd> copies;       // keeps the `from` ends alive
  int error_fd = -1;
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  // execve(2) takes char* const* for historical reasons and changes nothing.
  for (const std::string& s : strings) {
    out.push_back(const_cast<char*>(s.c_str()));
  }
  out.push_back(nullptr);
  return out;
}

/// The paths execvp would try.
std::vector<std::string> candidates(const std::string& program) {
  if (program.find('/') != std::string::npos) return {program};
  const char* path = std::getenv("PATH");
  std::vector<std::string> out;
  for (const std::string_view dir : text::split(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    out.push_back(dir.empty() ? text::cat("./", program) : text::cat(dir, "/", program));
  }
  return out;
}

/// Copies of all descriptors the child shall have, above every number it will use.
Status plan_descriptors(const SpawnOptions& options, ChildPlan& plan) {
  int lowest = STDERR_FILENO + 1;
  for (const int fd : options.pass_fds) {
    lowest = std::max(lowest, fd + 1);
  }
  const auto place = [&](int from, int to) -> Status {
    SBX_ASSIGN(UniqueFd copy, sys::dup(from, lowest));
    plan.placements.push_back({copy.get(), to});
    plan.copies.push_back(std::move(copy));
    return {};
  };
  const std::array standard{options.in, options.out, options.err};
  for (std::size_t i = 0; i < standard.size(); ++i) {
    UniqueFd null;
    if (standard[i] == -1) {
      SBX_ASSIGN(null, sys::open("/dev/null", i == 0 ? O_RDONLY : O_WRONLY));
    }
    SBX_TRY(place(null.valid() ? null.get() : standard[i], static_cast<int>(i)));
  }
  for (const int fd : options.pass_fds) {
    if (fd <= STDERR_FILENO) {
      return Error(Errc::kInternal, text::cat("descriptor ", fd, " cannot be passed by number"));
    }
    SBX_TRY(place(fd, fd));
  }
  const auto by_target = [](const Placement& a, const Placement& b) { return a.to < b.to; };
  std::ranges::sort(plan.placements, by_target);
  return {};
}

/// Puts the descriptors in place and closes all others but the error pipe. 0 or an errno.
int place_descriptors_in_child(const ChildPlan& plan) noexcept {
  unsigned next = 0;  // the lowest number not settled yet
  for (const Placement& placement : plan.placements) {
    const auto to = static_cast<unsigned>(placement.to);
    if (to > next) ::close_range(next, to - 1, 0);
    if (::dup3(placement.from, placement.to, 0) == -1) return errno;
    next = to + 1;
  }
  // All copies and the error pipe lie above: they go when exec succeeds.
  if (::close_range(next, ~0U, CLOSE_RANGE_CLOEXEC) == -1) return errno;
  return 0;
}

/// Runs the candidates in turn as execvp does: one that may not be run is remembered but does not
/// end the search. Returns only on failure.
int exec_in_child(const ChildPlan& plan) noexcept {
  int err = ENOENT;
  for (const char* path : plan.program_paths) {
    ::execve(path, plan.argv.data(), plan.envp.data());
    if (errno == EACCES) {
      err = EACCES;
    } else if (errno != ENOENT && errno != ENOTDIR) {
      return errno;
    }
  }
  return err;
}

[[noreturn]] void run_in_child(const ChildPlan& plan) noexcept {
  ChildFailure failure{0, ChildStep::kSignals};
  failure.err = reset_signals_in_child();
  if (failure.err == 0) {
    failure.step = ChildStep::kDirectory;
    if (plan.cwd != nullptr && ::chdir(plan.cwd) == -1) failure.err = errno;
  }
  if (failure.err == 0) {
    failure.step = ChildStep::kDescriptors;
    failure.err = place_descriptors_in_child(plan);
  }
  if (failure.err == 0) {
    failure.step = ChildStep::kExec;
    failure.err = exec_in_child(plan);
  }
  while (::write(plan.error_fd, &failure, sizeof failure) == -1 && errno == EINTR) {
  }
  ::_exit(127);
}

Error describe(const ChildFailure& failure, const SpawnOptions& options) {
  switch (failure.step) {
    case ChildStep::kSignals:
      return sys_error("reset signals of the child", failure.err);
    case ChildStep::kDirectory:
      return sys_error(text::cat("change directory to ", options.cwd), failure.err);
    case ChildStep::kDescriptors:
      return sys_error("place descriptors of the child", failure.err);
    case ChildStep::kExec:
      return sys_error(text::cat("execute ", options.argv.front()), failure.err);
  }
  return {Errc::kInternal, "the child failed in an unknown step"};
}

}  // namespace

int reset_signals_in_child() noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signo = 1; signo < NSIG; ++signo) {
    // EINVAL: SIGKILL, SIGSTOP and the two signals glibc keeps for itself.
    if (::sigaction(signo, &action, nullptr) == -1 && errno != EINVAL) return errno;
  }
  sigset_t none;
  sigemptyset(&none);
  return ::sigprocmask(SIG_SETMASK, &none, nullptr) == -1 ? errno : 0;
}

ChildProcess::~ChildProcess() {
  end();
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  end();
  pid_ = std::exchange(other.pid_, -1);
  pidfd_ = std::move(other.pidfd_);
  status_ = std::exchange(other.status_, std::nullopt);
  return *this;
}

void ChildProcess::end() {
  if (pid_ == -1 || status_.has_value()) return;
  // Nobody can be told when this fails; a child that SIGKILL does not end does not exist.
  static_cast<void>(kill(SIGKILL));
  static_cast<void>(wait());
  pid_ = -1;
}

Result<Forked> fork_pidfd(std::uint64_t flags) {
  int pidfd = -1;
  clone_args args{};
  args.flags = flags | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  SBX_ASSIGN(const pid_t pid, sys::clone3(args));
  return Forked{pid, UniqueFd(pid == 0 ? -1 : pidfd)};
}

Result<int> ChildProcess::wait() {
  if (!status_.has_value()) {
    SBX_ASSIGN(const siginfo_t info, sys::waitid_pidfd(pidfd_.get(), WEXITED));
    status_ = sys::wait_status(info);
  }
  return *status_;
}

Result<std::optional<int>> ChildProcess::try_wait() {
  if (!status_.has_value()) {
    SBX_ASSIGN(const siginfo_t info, sys::waitid_pidfd(pidfd_.get(), WEXITED | WNOHANG));
    if (info.si_pid != 0) status_ = sys::wait_status(info);
  }
  return status_;
}

Status ChildProcess::kill(int signo) {
  if (status_.has_value()) return {};
  Status sent = sys::pidfd_send_signal(pidfd_.get(), signo);
  if (!sent.ok() && sent.error().sys_errno() == ESRCH) return {};
  return sent;
}

pid_t ChildProcess::release() {
  pidfd_.reset();
  return std::exchange(pid_, -1);
}

Result<ChildProcess> spawn(const SpawnOptions& options) {
  if (options.argv.empty() || options.argv.front().empty()) {
    return Error(Errc::kInternal, "spawn needs the name of a program");
  }
  ChildPlan plan;
  plan.programs = candidates(options.argv.front());
  for (const std::string& program : plan.programs) {
    plan.program_paths.push_back(program.c_str());
  }
  plan.argv = pointers(options.argv);
  if (options.env.has_value()) {
    plan.envp = pointers(*options.env);
  } else {
    for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
      plan.envp.push_back(*variable);
    }
    plan.envp.push_back(nullptr);
  }
  if (!options.cwd.empty()) plan.cwd = options.cwd.c_str();
  SBX_TRY(plan_descriptors(options, plan));
  SBX_ASSIGN(sys::Pipe errors, sys::pipe());
  // Above all placements, like the copies.
  SBX_ASSIGN(UniqueFd error_end, sys::dup(errors.w.get(), plan.placements.back().to + 1));
  errors.w.reset();
  plan.error_fd = error_end.get();

  // No signal handler of ours may run in the child before it is reset.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  Result<Forked> forked = fork_pidfd();
  if (forked.ok() && forked.value().pid == 0) run_in_child(plan);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (!forked.ok()) return std::move(forked).error().prefixed("start a process");

  ChildProcess child(forked.value().pid, std::move(forked.value().pidfd));
  error_end.reset();
  ChildFailure failure{};
  SBX_ASSIGN(const std::size_t size,
             sys::read(errors.r.get(), std::as_writable_bytes(std::span(&failure, 1))));
  if (size == 0) return child;
  if (size != sizeof failure) {
    return Error(Errc::kInternal, "the child sent half a failure");
  }
  return describe(failure, options);
}

void die_with_parent_in_child(pid_t parent) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != parent) ::_exit(1);
}

}  // namespace sbx
