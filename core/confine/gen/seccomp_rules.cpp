// Seccomp rules: see seccomp_rules.h.
#include "core/confine/gen/seccomp_rules.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

// The filter has two parts.
//  1. Calls whose arguments matter, written by hand: only the low 32 bits of an int argument are
//     compared, because the kernel looks at no others (an upper bit set must not get TIOCSTI
//     through).
//  2. The list, by number. What is not in it gives ENOSYS, so that a C library newer than the list
//     falls back to older calls.
// The kernel evaluates a filter once per call number when it is installed and remembers those that
// are allowed whatever their arguments (Linux 5.11): these cost nothing afterwards.

namespace sbx::confine::gen {
namespace {

// Docker's default list, less: modify_ldt, fanotify, memory migration, and clone3 and openat2
// (their arguments are in memory, where no filter can look; programs use clone and openat instead).
constexpr std::string_view kAllowed =
    // files
    "read write open openat creat close close_range stat fstat lstat newfstatat "
    "statx access faccessat faccessat2 lseek pread64 pwrite64 readv writev preadv pwritev "
    "preadv2 pwritev2 sendfile splice tee vmsplice copy_file_range readahead fadvise64 "
    "fallocate truncate ftruncate sync syncfs fsync fdatasync sync_file_range dup dup2 dup3 "
    "fcntl flock pipe pipe2 getdents getdents64 getcwd chdir fchdir chroot mkdir mkdirat "
    "rmdir mknod mknodat link linkat symlink symlinkat readlink readlinkat unlink unlinkat "
    "rename renameat renameat2 chmod fchmod fchmodat chown fchown lchown fchownat umask "
    "utime utimes futimesat utimensat statfs fstatfs setxattr lsetxattr fsetxattr getxattr "
    "lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr "
    "fremovexattr name_to_handle_at inotify_init inotify_init1 inotify_add_watch "
    "inotify_rm_watch memfd_create "
    // waiting
    "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_ctl_old "
    "epoll_wait epoll_wait_old epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4 "
    "timerfd_create timerfd_settime timerfd_gettime io_setup io_destroy io_submit io_cancel "
    "io_getevents io_pgetevents "
    // memory
    "brk mmap munmap mremap mprotect madvise msync mincore mlock mlock2 munlock mlockall "
    "munlockall remap_file_pages pkey_alloc pkey_free pkey_mprotect membarrier memfd_secret "
    "get_mempolicy set_mempolicy mbind shmget shmat shmctl shmdt semget semop semtimedop "
    "semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink mq_timedsend mq_timedreceive "
    "mq_notify mq_getsetattr "
    // processes and threads
    "fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid "
    "getpgrp setpgid getsid setsid set_tid_address set_robust_list get_robust_list futex "
    "futex_waitv rseq arch_prctl set_thread_area get_thread_area prctl seccomp ptrace "
    "process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_open "
    "pidfd_send_signal pidfd_getfd restart_syscall getrlimit setrlimit getrusage times "
    "sysinfo uname getcpu getpriority setpriority ioprio_get ioprio_set sched_yield "
    "sched_getparam sched_setparam sched_getscheduler sched_setscheduler "
    "sched_get_priority_max sched_get_priority_min sched_rr_get_interval sched_getaffinity "
    "sched_setaffinity sched_getattr sched_setattr landlock_create_ruleset landlock_add_rule "
    "landlock_restrict_self "
    // signals
    "kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending "
    "rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend sigaltstack pause "
    // time
    "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer "
    "setitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete "
    "adjtimex clock_adjtime "
    // ids and capabilities
    "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid "
    "setregid setresuid setresgid setfsuid setfsgid setgroups capget capset getrandom "
    // sockets
    "socketpair bind listen accept accept4 connect shutdown getsockname getpeername "
    "getsockopt setsockopt sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg ";

// Newer than libseccomp 2.5.4 knows by name: cachestat, fchmodat2, map_shadow_stack, futex_wake,
// futex_wait, futex_requeue, mseal, setxattrat, getxattrat, listxattrat, removexattrat.
constexpr int kAllowedNumbers[] = {451, 452, 453, 454, 455, 456, 462, 463, 464, 465, 466};

constexpr std::string_view kMounts =
    "mount umount2 pivot_root open_tree move_mount mount_setattr fsopen fsconfig fsmount "
    "fspick setns ";

// Known and refused. What is in no list at all gives ENOSYS: io_uring among others.
constexpr std::string_view kDenied =
    "acct add_key bpf clock_settime delete_module finit_module init_module ioperm iopl "
    "kexec_file_load kexec_load keyctl lookup_dcookie open_by_handle_at perf_event_open "
    "quotactl quotactl_fd reboot request_key settimeofday swapoff swapon syslog userfaultfd "
    "vhangup ";

// What our own file worker calls, which is all it needs: no sockets, no processes, no signals to
// others. openat2 is in it because the worker's safety rests on it; its arguments come from our
// code.
constexpr std::string_view kFiles =
    "read write pread64 pwrite64 openat openat2 close lseek fstat newfstatat statx fstatfs "
    "getdents64 mkdirat unlinkat renameat renameat2 symlinkat linkat readlinkat fchmod fchmodat "
    "utimensat ftruncate flock fsync fsetxattr fgetxattr flistxattr fadvise64 fcntl dup umask "
    "brk mmap munmap mremap madvise mprotect getrandom clock_gettime poll futex exit exit_group "
    "rt_sigreturn rt_sigaction rt_sigprocmask getpid gettid tgkill geteuid getuid restart_syscall ";

constexpr std::string_view kHostName = "sethostname setdomainname ";

constexpr std::uint32_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                         CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
constexpr std::uint32_t kX32Bit = 0x40000000;
constexpr std::uint32_t kTiocLinux = 0x541c;
constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kSetIdBits = S_ISUID | S_ISGID;
constexpr std::uint32_t kCreating = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);
constexpr long kFchmodat2 = 452;  // Linux 6.6

constexpr std::uint32_t refuse(int err) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(err);
}

using Code = std::vector<sock_filter>;

sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}

sock_filter load_low(std::size_t arg) {  // little endian
  return load(offsetof(seccomp_data, args) + arg * sizeof(std::uint64_t));
}

sock_filter load_high(std::size_t arg) {
  return load(offsetof(seccomp_data, args) + arg * sizeof(std::uint64_t) + sizeof(std::uint32_t));
}

sock_filter jump(std::uint16_t test, std::uint32_t value, std::size_t yes, std::size_t no) {
  return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | test | BPF_K),
                  value,
                  static_cast<std::uint8_t>(yes),
                  static_cast<std::uint8_t>(no));
}

sock_filter give(std::uint32_t answer) {
  return BPF_STMT(BPF_RET | BPF_K, answer);
}

/// "If the call is `nr`: `body`", which always ends in an answer.
void add_block(Code& code, long nr, const Code& body) {
  code.push_back(jump(BPF_JEQ, static_cast<std::uint32_t>(nr), 0, body.size()));
  code.insert(code.end(), body.begin(), body.end());
}

/// Answers `match` when the low half of `arg` is one of `values`, else `other`.
Code one_of(std::size_t arg,
            std::initializer_list<std::uint32_t> values,
            std::uint32_t match,
            std::uint32_t other) {
  Code code{load_low(arg)};
  std::size_t left = values.size();
  for (const std::uint32_t value : values) {
    code.push_back(jump(BPF_JEQ, value, left, 0));
    --left;
  }
  code.push_back(give(other));
  code.push_back(give(match));
  return code;
}

Code any_bit(std::size_t arg, std::uint32_t bits, std::uint32_t match, std::uint32_t other) {
  return {load_low(arg), jump(BPF_JSET, bits, 0, 1), give(match), give(other)};
}

/// For a call whose mode argument is only one when its flags create a file.
Code set_id_when_creating(std::size_t flags, std::size_t mode) {
  return {load_low(flags),
          jump(BPF_JSET, kCreating, 0, 2),
          load_low(mode),
          jump(BPF_JSET, kSetIdBits, 1, 0),
          give(kAllow),
          give(refuse(EPERM))};
}

/// No set-user-id or set-group-id file: in a directory that is mounted read-write it would stay on
/// the host, where it belongs to the mount's owner.
void add_set_id_blocks(Code& code) {
  struct ModeCall {
    long nr;
    std::size_t mode;
  };
  constexpr ModeCall kModeCalls[] = {{SYS_chmod, 1},
                                     {SYS_fchmod, 1},
                                     {SYS_fchmodat, 2},
                                     {kFchmodat2, 2},
                                     {SYS_creat, 1},
                                     {SYS_mknod, 1},
                                     {SYS_mknodat, 2}};
  for (const ModeCall& call : kModeCalls) {
    add_block(code, call.nr, any_bit(call.mode, kSetIdBits, refuse(EPERM), kAllow));
  }
  add_block(code, SYS_open, set_id_when_creating(1, 2));
  add_block(code, SYS_openat, set_id_when_creating(2, 3));
}

Code arguments_part(Variant variant) {
  Code code{
      load(offsetof(seccomp_data, arch)),
      jump(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0),
      give(refuse(ENOSYS)),
      load(offsetof(seccomp_data, nr)),
      jump(BPF_JGE, kX32Bit, 0, 1),
      give(refuse(ENOSYS)),
  };
  if (variant == Variant::kFiles) {
    add_block(code, SYS_fchmod, any_bit(1, kSetIdBits, refuse(EPERM), kAllow));
    add_block(code, SYS_fchmodat, any_bit(2, kSetIdBits, refuse(EPERM), kAllow));
    add_block(code, SYS_openat, set_id_when_creating(2, 3));
    return code;
  }
  // Typing into the terminal, and the virtual console's paste buffer.
  add_block(code, SYS_ioctl, one_of(1, {TIOCSTI, kTiocLinux}, refuse(EPERM), kAllow));
  if (variant != Variant::kNesting) {
    add_block(code, SYS_clone, any_bit(0, kNewNamespaces, refuse(EPERM), kAllow));
    add_block(code, SYS_unshare, any_bit(0, kNewNamespaces | CLONE_NEWTIME, refuse(EPERM), kAllow));
  }
  if (variant != Variant::kImage) add_set_id_blocks(code);
  // Some families are in no network namespace (vsock), the others only widen the kernel's surface.
  add_block(code,
            SYS_socket,
            one_of(0, {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}, kAllow, refuse(EAFNOSUPPORT)));
  // Another process's limits; reading them is fine.
  add_block(code,
            SYS_prlimit64,
            {load_low(0),
             jump(BPF_JEQ, 0, 4, 0),
             load_low(2),
             jump(BPF_JEQ, 0, 0, 3),
             load_high(2),
             jump(BPF_JEQ, 0, 0, 1),
             give(kAllow),
             give(refuse(EPERM))});
  add_block(code,
            SYS_personality,
            one_of(0,
                   {PER_LINUX,
                    PER_LINUX32,
                    UNAME26,
                    std::uint32_t{PER_LINUX32} | UNAME26,
                    ADDR_NO_RANDOMIZE,
                    0xffffffffU},
                   kAllow,
                   refuse(EPERM)));
  return code;
}

/// Answers by call number. Neighbours with the same answer make one range, and the ranges a binary
/// tree: about a hundred instructions where one comparison for each call makes five hundred, which
/// the kernel has to check and compile each time a program starts.
class List {
 public:
  explicit List(std::string& error) : error_(error) { answers_[0] = refuse(ENOSYS); }

  /// `names`: separated by spaces.
  void add(std::string_view names, std::uint32_t answer) {
    std::istringstream words{std::string(names)};
    for (std::string name; words >> name;) {
      const int nr = seccomp_syscall_resolve_name(name.c_str());
      if (nr < 0) {
        error_ = "unknown system call " + name;
      } else {
        add(nr, answer);
      }
    }
  }
  void add(int nr, std::uint32_t answer) {
    const auto at = static_cast<std::uint32_t>(nr);
    const std::uint32_t after = std::prev(answers_.upper_bound(at + 1))->second;
    answers_[at] = answer;
    answers_.try_emplace(at + 1, after);
  }

  Code code() const {
    std::vector<Range> ranges;
    for (const auto& [first, answer] : answers_) {
      if (ranges.empty() || ranges.back().answer != answer) ranges.push_back({first, answer});
    }
    return tree(ranges);
  }

 private:
  struct Range {
    std::uint32_t first;
    std::uint32_t answer;
  };

  Code tree(std::span<const Range> ranges) const {
    if (ranges.size() == 1) return {give(ranges[0].answer)};
    const std::size_t half = ranges.size() / 2;
    const Code below = tree(ranges.first(half));
    const Code above = tree(ranges.subspan(half));
    if (below.size() > UINT8_MAX) error_ = "a jump is too long";
    Code out{jump(BPF_JGE, ranges[half].first, below.size(), 0)};
    out.insert(out.end(), below.begin(), below.end());
    out.insert(out.end(), above.begin(), above.end());
    return out;
  }

  std::map<std::uint32_t, std::uint32_t> answers_;  // from this number on
  std::string& error_;
};

}  // namespace

std::vector<sock_filter> build_filter(Variant variant, std::string& error) {
  const std::uint32_t refused = refuse(EPERM);
  const bool is_nesting = variant == Variant::kNesting;
  List list(error);
  if (variant == Variant::kFiles) {
    list.add(kFiles, kAllow);
    Code files = arguments_part(variant);
    const Code tree = list.code();
    files.insert(files.end(), tree.begin(), tree.end());
    return error.empty() ? files : Code{};
  }
  list.add(kAllowed, kAllow);
  for (const int nr : kAllowedNumbers) {
    list.add(nr, kAllow);
  }
  list.add(kDenied, refused);
  list.add(kMounts, is_nesting ? kAllow : refused);
  list.add(kHostName, is_nesting ? kAllow : refused);
  if (is_nesting) list.add("clone clone3 unshare", kAllow);
  Code code = arguments_part(variant);  // leaves the number in the accumulator
  const Code tree = list.code();
  code.insert(code.end(), tree.begin(), tree.end());
  if (!error.empty()) return {};
  return code;
}

}  // namespace sbx::confine::gen
