// Sys: wrappers for descriptors, names and processes. Those for mounts have their own source file.
#include "core/base/sys.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include "core/base/clock.h"
#include "core/base/text.h"

namespace sbx::sys {
namespace {

/// Repeats `call` while a signal interrupts it.
template <typename F>
auto retried(F call) {
  while (true) {
    const auto value = call();
    if (value != -1 || errno != EINTR) return value;
  }
}

/// The error of the call that just failed; errno is read before anything can change it.
template <typename... Args>
Error failed(const Args&... args) {
  const int err = errno;
  return sys_error(text::cat(args...), err);
}

template <typename... Args>
Status status(long value, const Args&... args) {
  if (value == -1) return failed(args...);
  return {};
}

template <typename... Args>
Result<UniqueFd> owned(long fd, const Args&... args) {
  if (fd == -1) return failed(args...);
  return UniqueFd(static_cast<int>(fd));
}

template <typename... Args>
Result<std::size_t> counted(ssize_t size, const Args&... args) {
  if (size == -1) return failed(args...);
  return static_cast<std::size_t>(size);
}

}  // namespace

// --- opening ---

Result<UniqueFd> open(Path path, int flags, mode_t mode) {
  return openat(AT_FDCWD, path, flags, mode);
}

Result<UniqueFd> openat(int dirfd, Path path, int flags, mode_t mode) {
  const int fd = retried([&] { return ::openat(dirfd, path.c_str(), flags | O_CLOEXEC, mode); });
  return owned(fd, "open ", path);
}

Result<UniqueFd> openat2(
    int dirfd, Path path, std::uint64_t flags, std::uint64_t mode, std::uint64_t resolve) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.mode = mode;
  how.resolve = resolve;
  long fd = -1;
  // EAGAIN: a rename or mount somewhere raced with a scoped lookup (openat2(2)). Somebody hostile
  // may rename without pause, so this ends.
  constexpr int kTries = 128;
  for (int i = 0; i < kTries; ++i) {
    fd = retried([&] { return ::syscall(SYS_openat2, dirfd, path.c_str(), &how, sizeof how); });
    if (fd != -1 || errno != EAGAIN) break;
  }
  return owned(fd, "open ", path);
}

Result<UniqueFd> dup(int fd, int lowest) {
  return owned(::fcntl(fd, F_DUPFD_CLOEXEC, lowest), "duplicate descriptor ", fd);
}

Status dup_onto(int fd, int to, bool cloexec) {
  const int value = retried([&] { return ::dup3(fd, to, cloexec ? O_CLOEXEC : 0); });
  return status(value, "duplicate descriptor ", fd, " onto ", to);
}

Result<UniqueFd> memfd_create(const std::string& name, unsigned flags) {
  return owned(::memfd_create(name.c_str(), flags | MFD_CLOEXEC), "create memory file ", name);
}

// --- reading and writing ---

Result<std::size_t> read(int fd, char* buffer, std::size_t size) {
  return counted(retried([&] { return ::read(fd, buffer, size); }), "read from descriptor ", fd);
}

Result<std::size_t> read(int fd, std::span<std::byte> buffer) {
  return read(fd, reinterpret_cast<char*>(buffer.data()), buffer.size());
}

Result<std::size_t> write(int fd, std::string_view data) {
  const ssize_t size = retried([&] { return ::write(fd, data.data(), data.size()); });
  return counted(size, "write to descriptor ", fd);
}

Result<std::size_t> write(int fd, std::span<const std::byte> data) {
  return write(fd, std::string_view(reinterpret_cast<const char*>(data.data()), data.size()));
}

Status write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t size = retried([&] { return ::write(fd, data.data(), data.size()); });
    if (size != -1) {
      data.remove_prefix(static_cast<std::size_t>(size));
      continue;
    }
    if (errno != EAGAIN) return failed("write to descriptor ", fd);
    std::array wait{pollfd{fd, POLLOUT, 0}};
    SBX_TRY(poll(wait, Millis{-1}));
  }
  return {};
}

Result<std::string> read_all(int fd, Bytes cap) {
  constexpr std::size_t kFirst = 4096;
  constexpr std::size_t kMost = std::size_t{1} << 20;
  std::string out;
  std::size_t filled = 0;
  while (true) {
    if (filled == out.size()) out.resize(filled + std::clamp(filled, kFirst, kMost));
    const ssize_t size =
        retried([&] { return ::read(fd, out.data() + filled, out.size() - filled); });
    if (size == -1 && errno == EAGAIN) {
      std::array wait{pollfd{fd, POLLIN, 0}};
      SBX_TRY(poll(wait, Millis{-1}));
      continue;
    }
    if (size == -1) return failed("read from descriptor ", fd);
    if (size == 0) break;
    filled += static_cast<std::size_t>(size);
    if (filled > cap.v) {
      return Error(Errc::kLimit, text::cat("content is longer than ", to_string(cap)));
    }
  }
  out.resize(filled);
  return out;
}

Result<std::size_t> splice(int in, int out, std::size_t size, unsigned flags) {
  const ssize_t moved = retried([&] { return ::splice(in, nullptr, out, nullptr, size, flags); });
  return counted(moved, "splice from descriptor ", in, " to ", out);
}

Status ftruncate(int fd, Bytes size) {
  if (!std::in_range<off_t>(size.v)) {
    return Error(Errc::kLimit, text::cat("no file can have ", size.v, " bytes"));
  }
  const int value = retried([&] { return ::ftruncate(fd, static_cast<off_t>(size.v)); });
  return status(value, "set the size of descriptor ", fd);
}

Status fsync(int fd) {
  return status(retried([&] { return ::fsync(fd); }), "flush descriptor ", fd);
}

Result<Pipe> pipe(int flags) {
  std::array<int, 2> fds{-1, -1};
  SBX_TRY(status(::pipe2(fds.data(), flags | O_CLOEXEC), "create a pipe"));
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

namespace {

Result<SocketPair> make_socketpair(int type) {
  std::array<int, 2> fds{-1, -1};
  const int value = ::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds.data());
  SBX_TRY(status(value, "create a socket pair"));
  return SocketPair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace

Result<SocketPair> socketpair_seqpacket() {
  return make_socketpair(SOCK_SEQPACKET);
}

Result<SocketPair> socketpair_stream() {
  return make_socketpair(SOCK_STREAM);
}

Status set_nonblocking(int fd, bool on) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags == -1) return failed("get the flags of descriptor ", fd);
  const int wanted = on ? (flags | O_NONBLOCK) : (flags & ~O_NONBLOCK);
  if (wanted == flags) return {};
  return status(::fcntl(fd, F_SETFL, wanted), "set the flags of descriptor ", fd);
}

int set_pipe_size(int fd, int size) {
  const int set = ::fcntl(fd, F_SETPIPE_SZ, size);
  if (set != -1) return set;
  return std::max(::fcntl(fd, F_GETPIPE_SZ), 0);
}

Result<int> poll(std::span<pollfd> fds, Millis timeout) {
  const std::int64_t end = timeout.v < 0 ? 0 : monotonic_now().v;
  Millis left = timeout;
  while (true) {
    const int wait = timeout.v < 0 ? -1 : static_cast<int>(std::min<std::int64_t>(left.v, INT_MAX));
    const int ready = ::poll(fds.data(), fds.size(), wait);
    if (ready > 0) return ready;
    if (ready == -1 && errno != EINTR) return failed("wait for descriptors");
    if (timeout.v < 0) continue;
    left.v = timeout.v - (monotonic_now().v - end);
    if (left.v <= 0) return 0;
  }
}

// --- names ---

Status mkdirat(int dirfd, Path path, mode_t mode) {
  return status(::mkdirat(dirfd, path.c_str(), mode), "make directory ", path);
}

Status unlinkat(int dirfd, Path path, int flags) {
  return status(::unlinkat(dirfd, path.c_str(), flags), "remove ", path);
}

Status renameat(int from_dirfd, Path from, int to_dirfd, Path to, unsigned flags) {
  const int value = ::renameat2(from_dirfd, from.c_str(), to_dirfd, to.c_str(), flags);
  return status(value, "rename ", from, " to ", to);
}

Status symlinkat(Path target, int dirfd, Path path) {
  return status(::symlinkat(target.c_str(), dirfd, path.c_str()), "link ", path, " to ", target);
}

Result<std::string> readlinkat(int dirfd, Path path) {
  std::string target(PATH_MAX, '\0');
  const ssize_t size = ::readlinkat(dirfd, path.c_str(), target.data(), target.size());
  if (size == -1) return failed("read link ", path);
  if (std::cmp_equal(size, target.size())) {
    return Error(Errc::kLimit, text::cat("the target of link ", path, " is too long"));
  }
  target.resize(static_cast<std::size_t>(size));
  return target;
}

Result<struct stat> fstat(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) == -1) return failed("get the state of descriptor ", fd);
  return st;
}

Result<struct stat> fstatat(int dirfd, Path path, int flags) {
  struct stat st {};
  if (::fstatat(dirfd, path.c_str(), &st, flags) == -1) return failed("get the state of ", path);
  return st;
}

Status fchmod(int fd, mode_t mode) {
  return status(::fchmod(fd, mode), "set the mode of descriptor ", fd);
}

Status fchown(int fd, uid_t uid, gid_t gid) {
  return status(::fchown(fd, uid, gid), "set the owner of descriptor ", fd);
}

Status fchownat(int dirfd, Path path, uid_t uid, gid_t gid, int flags) {
  return status(::fchownat(dirfd, path.c_str(), uid, gid, flags), "set the owner of ", path);
}

// --- processes ---

Result<pid_t> clone3(clone_args& args) {
  const long pid = ::syscall(SYS_clone3, &args, sizeof args);
  if (pid == -1) return failed("clone3 with flags ", args.flags);
  return static_cast<pid_t>(pid);
}

void move_from_our_cpu(pid_t child) {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (::sched_getaffinity(0, sizeof all, &all) != 0) return;
  const int own = ::sched_getcpu();
  if (own < 0 || own >= CPU_SETSIZE || CPU_COUNT(&all) < 2) return;
  cpu_set_t others = all;
  CPU_CLR(static_cast<unsigned>(own), &others);
  if (::sched_setaffinity(child, sizeof others, &others) != 0) return;
  (void)::sched_setaffinity(child, sizeof all, &all);
}

Status kill(pid_t pid, int signo) {
  return status(::kill(pid, signo), "send signal ", signo, " to process ", pid);
}

Result<UniqueFd> pidfd_open(pid_t pid) {
  return owned(::syscall(SYS_pidfd_open, pid, 0), "open a descriptor of process ", pid);
}

Status pidfd_send_signal(int pidfd, int signo) {
  const long value = ::syscall(SYS_pidfd_send_signal, pidfd, signo, nullptr, 0);
  return status(value, "send signal ", signo, " through descriptor ", pidfd);
}

Result<siginfo_t> waitid_pidfd(int pidfd, int options, rusage* usage) {
  siginfo_t info{};
  const auto value =
      retried([&] { return ::syscall(SYS_waitid, P_PIDFD, pidfd, &info, options, usage); });
  if (value == -1) return failed("wait for the process of descriptor ", pidfd);
  return info;
}

int wait_status(const siginfo_t& info) {
  // The layout of wait(2)'s status: exit code in bits 8-15, or signal in bits 0-6 and core in 7.
  constexpr int kCoreFlag = 0x80;
  switch (info.si_code) {
    case CLD_EXITED:
      return (info.si_status & 0xff) << 8;
    case CLD_DUMPED:
      return (info.si_status & 0x7f) | kCoreFlag;
    default:
      return info.si_status & 0x7f;
  }
}

Result<int> prctl(
    std::string_view what, int option, unsigned long a, unsigned long b, unsigned long c) {
  const int value = ::prctl(option, a, b, c, 0UL);
  if (value == -1) return failed(what);
  return value;
}

Status close_range(unsigned first, unsigned last, unsigned flags) {
  const int value = ::close_range(first, last, static_cast<int>(flags));
  return status(value, "close descriptors from ", first, " to ", last);
}

Error execveat(int dirfd, Path path, char* const* argv, char* const* envp, int flags) {
  ::syscall(SYS_execveat, dirfd, path.c_str(), argv, envp, flags);
  return failed("execute ", path);
}

Status unshare(int flags) {
  return status(::unshare(flags), "unshare namespaces ", flags);
}

Status setns(int fd, int nstype) {
  return status(::setns(fd, nstype), "enter the namespace of descriptor ", fd);
}

}  // namespace sbx::sys
