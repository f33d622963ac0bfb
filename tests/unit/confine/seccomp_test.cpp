#include "core/confine/seccomp.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/confine/gen/seccomp_rules.h"

#include "tests/unit/confine/in_child.h"

namespace sbx::confine {
namespace {

/// errno of a call under the filter: 0 when it succeeded, 255 when the filter is not in force.
template <typename F>
int errno_under(SeccompProfile profile, F call) {
  return test::in_child([&] {
    if (install_seccomp_in_child(profile) != 0) return 255;
    errno = 0;
    return call() == -1 ? errno : 0;
  });
}

template <typename F>
int errno_under_default(F call) {
  return errno_under(SeccompProfile::kDefault, call);
}

constexpr std::uint32_t kBroken = 0xbadbad00;  // the program is not one

bool holds(const sock_filter& jump, std::uint32_t a) {
  switch (BPF_OP(jump.code)) {
    case BPF_JEQ:
      return a == jump.k;
    case BPF_JGT:
      return a > jump.k;
    case BPF_JGE:
      return a >= jump.k;
    default:
      return (a & jump.k) != 0;  // BPF_JSET
  }
}

/// Runs the filter as the kernel does. Instructions of one word and constants only, as made here.
std::uint32_t evaluate(std::span<const sock_filter> code, const seccomp_data& data) {
  std::uint32_t a = 0;
  for (std::size_t pc = 0; pc < code.size(); ++pc) {
    const sock_filter& i = code[pc];
    if (i.code == (BPF_RET | BPF_K)) return i.k;
    if (i.code == (BPF_JMP | BPF_JA)) {
      pc += i.k;
    } else if (i.code == (BPF_LD | BPF_W | BPF_ABS) && i.k + sizeof a <= sizeof data) {
      std::memcpy(&a, reinterpret_cast<const char*>(&data) + i.k, sizeof a);
    } else if (BPF_CLASS(i.code) == BPF_JMP && BPF_SRC(i.code) == BPF_K) {
      pc += holds(i, a) ? i.jt : i.jf;
    } else {
      return kBroken;
    }
  }
  return kBroken;
}

constexpr std::uint32_t kX86 = 0xc000003e;
constexpr std::uint32_t kI386 = 0x40000003;

std::uint32_t answer(SeccompProfile profile,
                     int nr,
                     std::uint32_t arch = kX86,
                     std::uint64_t arg0 = 0) {
  seccomp_data data{};
  data.nr = nr;
  data.arch = arch;
  data.args[0] = arg0;
  return evaluate(seccomp_program(profile), data);
}

constexpr std::uint32_t kErrno = 0x00050000;
constexpr std::uint32_t kAllow = 0x7fff0000;

bool same(std::span<const sock_filter> a, const std::vector<sock_filter>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.code == y.code && x.jt == y.jt && x.jf == y.jf && x.k == y.k;
  });
}

}  // namespace

TEST_CASE("seccomp: the filters in the binary are what the generator makes") {
  std::string error;
  CHECK(same(seccomp_program(SeccompProfile::kDefault),
             gen::build_filter(gen::Variant::kDefault, error)));
  CHECK(same(seccomp_program(SeccompProfile::kNesting),
             gen::build_filter(gen::Variant::kNesting, error)));
  CHECK(same(seccomp_program(SeccompProfile::kFiles),
             gen::build_filter(gen::Variant::kFiles, error)));
  CHECK(error.empty());
  CHECK(seccomp_program(SeccompProfile::kDefault).size() < BPF_MAXINSNS);
}

TEST_CASE("seccomp: every number answers allow, EPERM or ENOSYS; none kills") {
  const std::set<int> refused{SYS_acct,
                              SYS_add_key,
                              SYS_bpf,
                              SYS_clock_settime,
                              SYS_delete_module,
                              SYS_finit_module,
                              SYS_init_module,
                              SYS_ioperm,
                              SYS_iopl,
                              SYS_kexec_file_load,
                              SYS_kexec_load,
                              SYS_keyctl,
                              SYS_lookup_dcookie,
                              SYS_open_by_handle_at,
                              SYS_perf_event_open,
                              SYS_quotactl,
                              SYS_quotactl_fd,
                              SYS_reboot,
                              SYS_request_key,
                              SYS_settimeofday,
                              SYS_swapoff,
                              SYS_swapon,
                              SYS_syslog,
                              SYS_userfaultfd,
                              SYS_vhangup,
                              SYS_mount,
                              SYS_umount2,
                              SYS_pivot_root,
                              SYS_open_tree,
                              SYS_move_mount,
                              SYS_mount_setattr,
                              SYS_fsopen,
                              SYS_fsconfig,
                              SYS_fsmount,
                              SYS_fspick,
                              SYS_setns,
                              SYS_sethostname,
                              SYS_setdomainname};
  int allowed = 0;
  for (int nr = -1; nr <= 600; ++nr) {
    CAPTURE(nr);
    const std::uint32_t got = answer(SeccompProfile::kDefault, nr);
    if (got == kAllow) {
      ++allowed;
      CHECK(refused.count(nr) == 0);
    } else if (nr == SYS_socket) {
      CHECK(got == (kErrno | EAFNOSUPPORT));  // family 0
    } else {
      CHECK(got == (kErrno | (refused.count(nr) != 0 ? EPERM : ENOSYS)));
    }
  }
  CHECK(allowed > 300);
  CHECK(allowed < 360);
  for (const int nr : {SYS_io_uring_setup,
                       SYS_io_uring_enter,
                       SYS_io_uring_register,
                       SYS_clone3,
                       SYS_modify_ldt,
                       SYS_fanotify_init,
                       SYS_nfsservctl,
                       335,
                       500}) {
    CHECK(answer(SeccompProfile::kDefault, nr) == (kErrno | ENOSYS));
  }
}

TEST_CASE("seccomp: i386 and x32 calls give ENOSYS, whatever the number") {
  for (int nr = 0; nr <= 600; ++nr) {
    CHECK(answer(SeccompProfile::kDefault, nr, kI386) == (kErrno | ENOSYS));
    CHECK(answer(SeccompProfile::kNesting, nr | 0x40000000) == (kErrno | ENOSYS));
  }
}

TEST_CASE("seccomp: nesting allows mounts and namespaces and nothing else more") {
  std::set<int> more;
  for (int nr = 0; nr <= 600; ++nr) {
    const bool by_default = answer(SeccompProfile::kDefault, nr, kX86, CLONE_NEWNS) == kAllow;
    const bool nested = answer(SeccompProfile::kNesting, nr, kX86, CLONE_NEWNS) == kAllow;
    CHECK((nested || !by_default));
    if (nested && !by_default) more.insert(nr);
  }
  CHECK(more == std::set<int>{SYS_clone,
                              SYS_clone3,
                              SYS_unshare,
                              SYS_setns,
                              SYS_mount,
                              SYS_umount2,
                              SYS_pivot_root,
                              SYS_open_tree,
                              SYS_move_mount,
                              SYS_mount_setattr,
                              SYS_fsopen,
                              SYS_fsconfig,
                              SYS_fsmount,
                              SYS_fspick,
                              SYS_sethostname,
                              SYS_setdomainname});
}

TEST_CASE("seccomp: a file worker makes no process and no socket, runs and signals nothing") {
  for (const int nr :
       {SYS_clone,        SYS_clone3,   SYS_fork,       SYS_vfork,   SYS_execve,
        SYS_execveat,     SYS_socket,   SYS_connect,    SYS_sendmsg, SYS_recvmsg,
        SYS_kill,         SYS_tkill,    SYS_pidfd_open, SYS_ptrace,  SYS_mount,
        SYS_open_tree,    SYS_unshare,  SYS_setns,      SYS_ioctl,   SYS_prctl,
        SYS_mknod,        SYS_mknodat,  SYS_chmod,      SYS_setuid,  SYS_process_vm_writev,
        SYS_memfd_create, SYS_prlimit64}) {
    CAPTURE(nr);
    CHECK(answer(SeccompProfile::kFiles, nr) != kAllow);
  }
  CHECK(answer(SeccompProfile::kFiles, SYS_openat2) == kAllow);
}

TEST_CASE("seccomp: unknown numbers give ENOSYS to a real program") {
  const int wrong = test::in_child([] {
    if (install_seccomp_in_child(SeccompProfile::kDefault) != 0) return 255;
    for (long nr = 470; nr <= 600; ++nr) {
      errno = 0;
      if (::syscall(nr, 0, 0, 0, 0, 0, 0) != -1 || errno != ENOSYS) return 1;
    }
    return 0;
  });
  CHECK(wrong == 0);
  CHECK(errno_under_default([] { return ::syscall(SYS_io_uring_setup, 1, nullptr); }) == ENOSYS);
}

TEST_CASE("seccomp: typing into the terminal is refused whatever the upper bits of the request") {
  for (const unsigned long request : {0x5412UL, 0x541cUL}) {
    for (const unsigned long upper : {0UL, 1UL << 32U, 0xffffffffUL << 32U}) {
      CAPTURE(request | upper);
      CHECK(errno_under_default([&] { return ::syscall(SYS_ioctl, 0, request | upper, "x"); }) ==
            EPERM);
    }
  }
  // Others arrive at the kernel.
  CHECK(errno_under_default([] { return ::ioctl(-1, TIOCGWINSZ, nullptr); }) == EBADF);
}

namespace {

int errno_of_unshare(unsigned long flags) {
  return errno_under_default([flags] { return ::syscall(SYS_unshare, flags); });
}

int errno_of_clone(unsigned long flags) {
  return errno_under_default([flags] { return ::syscall(SYS_clone, flags, 0, 0, 0, 0); });
}

}  // namespace

TEST_CASE("seccomp: no new namespace by default, in none of three ways") {
  for (const unsigned bit : {17U, 25U, 26U, 27U, 28U, 29U, 30U}) {  // CLONE_NEWNS … CLONE_NEWNET
    CAPTURE(bit);
    CHECK(errno_of_unshare(1UL << bit) == EPERM);
    CHECK(errno_of_clone((1UL << bit) | (1UL << 40U) | SIGCHLD) == EPERM);
  }
  CHECK(errno_of_unshare(CLONE_NEWTIME) == EPERM);
  CHECK(errno_of_unshare(CLONE_FILES | CLONE_FS) == 0);
  std::array<char, 88> args{};
  CHECK(errno_under_default([&] { return ::syscall(SYS_clone3, args.data(), args.size()); }) ==
        ENOSYS);
  CHECK(errno_under(SeccompProfile::kNesting, [] { return ::syscall(SYS_setns, -1, 0); }) == EBADF);
}

TEST_CASE("seccomp: only the plain socket families") {
  const auto errno_of = [](int family) {
    return errno_under_default([&] { return ::socket(family, SOCK_DGRAM, 0) < 0 ? -1 : 0; });
  };
  for (const int family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}) {
    CHECK(errno_of(family) == 0);
  }
  for (const int family : {AF_VSOCK, AF_ALG, AF_PACKET, AF_BLUETOOTH, AF_CAN, AF_RDS, AF_TIPC}) {
    CAPTURE(family);
    CHECK(errno_of(family) == EAFNOSUPPORT);
  }
}

namespace {

/// A file, and a name beside it that does not exist.
struct SetIdFiles {
  std::string there;
  std::string fresh;
  int fd = -1;
};

/// How many of the calls that can set these mode bits get through.
int set_id_calls_allowed(SeccompProfile profile, const SetIdFiles& files, unsigned bits) {
  const char* const there = files.there.c_str();
  const char* const fresh = files.fresh.c_str();
  int allowed = 0;
  const auto attempt = [&](auto call) { allowed += errno_under(profile, call) == EPERM ? 0 : 1; };
  attempt([&] { return ::syscall(SYS_chmod, there, bits); });
  attempt([&] { return ::syscall(SYS_fchmod, files.fd, bits); });
  attempt([&] { return ::syscall(SYS_fchmodat, AT_FDCWD, there, bits); });
  attempt([&] { return ::syscall(452, AT_FDCWD, there, bits, 0); });  // fchmodat2
  attempt([&] { return ::syscall(SYS_creat, fresh, bits); });
  attempt([&] { return ::syscall(SYS_mknod, fresh, S_IFREG | bits, 0); });
  attempt([&] { return ::syscall(SYS_mknodat, AT_FDCWD, fresh, S_IFREG | bits, 0); });
  attempt([&] { return ::syscall(SYS_open, fresh, O_CREAT | O_WRONLY, bits); });
  attempt([&] { return ::syscall(SYS_openat, AT_FDCWD, "/tmp", O_TMPFILE | O_RDWR, bits); });
  return allowed;
}

/// How many harmless calls of the same kind are refused: the sticky bit, and an open that makes
/// nothing, whose third argument is whatever the caller left there. openat2 counts unless unknown.
int other_modes_refused(SeccompProfile profile, const SetIdFiles& files) {
  const char* const there = files.there.c_str();
  int refused = errno_under(profile, [&] { return ::syscall(SYS_chmod, there, 01777U); });
  refused += errno_under(profile, [&] { return ::syscall(SYS_open, there, O_RDONLY, 06777U); });
  const auto openat2 = [&] { return ::syscall(SYS_openat2, AT_FDCWD, there, nullptr, 0); };
  return refused + (errno_under(profile, openat2) == ENOSYS ? 0 : 1);
}

}  // namespace

TEST_CASE("seccomp: no set-id file comes to be, by none of the calls that could make one") {
  SetIdFiles files;
  files.there = "/tmp/sbx-set-id-XXXXXX";
  files.fd = ::mkstemp(files.there.data());
  REQUIRE(files.fd >= 0);
  files.fresh = files.there + "-new";
  for (const SeccompProfile profile : {SeccompProfile::kDefault, SeccompProfile::kNesting}) {
    const int allowed = set_id_calls_allowed(profile, files, 04755) +
                        set_id_calls_allowed(profile, files, 02755) +
                        set_id_calls_allowed(profile, files, 06000);
    CHECK(allowed == 0);
    CHECK(other_modes_refused(profile, files) == 0);
  }
  CHECK(::access(files.fresh.c_str(), F_OK) != 0);
  (void)::close(files.fd);
  (void)::unlink(files.there.c_str());
}

TEST_CASE("seccomp: limits of another process cannot be set, one's own can") {
  const pid_t other = ::getpid();
  rlimit limit{100, 100};
  CHECK(errno_under_default([&] {
          return ::syscall(SYS_prlimit64, other, RLIMIT_NOFILE, &limit, nullptr);
        }) == EPERM);
  CHECK(errno_under_default(
            [&] { return ::syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, nullptr); }) == 0);
  rlimit old{};
  CHECK(errno_under_default([&] {
          return ::syscall(SYS_prlimit64, ::getpid(), RLIMIT_NOFILE, nullptr, &old);
        }) == 0);
}

namespace {

bool can_start_threads() {
  const auto same = [](void* argument) { return argument; };
  for (int i = 0; i < 8; ++i) {
    pthread_t thread{};
    if (::pthread_create(&thread, nullptr, same, nullptr) != 0) return false;
    if (::pthread_join(thread, nullptr) != 0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("seccomp: threads, children and signals work") {
  const int result = test::in_child([] {
    if (install_seccomp_in_child(SeccompProfile::kDefault) != 0) return 1;
    if (!can_start_threads()) return 2;
    ::execl("/bin/sh", "sh", "-c", "x=$(echo a | cat; kill -0 $$) && exit 7", nullptr);
    return 3;
  });
  CHECK(result == 7);
}

TEST_CASE("seccomp: cost of installing and of a call (printed, not judged)") {
  int results[2];
  REQUIRE(::pipe2(results, O_CLOEXEC) == 0);
  struct Cost {
    std::int64_t before, install, after, filtered;
  };
  const int status = test::in_child([&] {
    constexpr int kCalls = 300'000;
    const auto measure = [](long nr) {
      const std::int64_t start = monotonic_ns();
      for (int i = 0; i < kCalls; ++i) {
        ::syscall(nr, -1, 0, 0);
      }
      return (monotonic_ns() - start) * 1000 / kCalls;
    };
    Cost cost{};
    cost.before = measure(SYS_getppid);
    const std::int64_t start = monotonic_ns();
    if (install_seccomp_in_child(SeccompProfile::kDefault) != 0) return 1;
    cost.install = monotonic_ns() - start;
    cost.after = measure(SYS_getppid);
    cost.filtered = measure(SYS_ioctl);
    return ::write(results[1], &cost, sizeof cost) == sizeof cost ? 0 : 1;
  });
  REQUIRE(status == 0);
  Cost cost{};
  REQUIRE(::read(results[0], &cost, sizeof cost) == sizeof cost);
  MESSAGE("install " << cost.install / 1000 << " us, getppid " << cost.before << " ps before, "
                     << cost.after << " ps after, ioctl " << cost.filtered << " ps");
  ::close(results[0]);
  ::close(results[1]);
}

}  // namespace sbx::confine
