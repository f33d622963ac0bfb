// Sys: one thin wrapper per system call: EINTR retried, descriptors close-on-exec, errors as values
// that name the call and the object. It decides nothing.
// A wrapper that may block says so; the others do not wait for other processes.
#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

// <sys/mount.h> and <linux/mount.h> of glibc 2.36 cannot be included together, so this header
// needs neither; the caller picks one.
struct mount_attr;
struct clone_args;

namespace sbx::sys {

using Path = const std::string&;

// --- opening ---

/// open(2) with O_CLOEXEC added. May block on a FIFO without O_NONBLOCK.
Result<UniqueFd> open(Path path, int flags, mode_t mode = 0);
/// openat(2) with O_CLOEXEC added.
Result<UniqueFd> openat(int dirfd, Path path, int flags, mode_t mode = 0);
/// openat2(2) with O_CLOEXEC added; `resolve` is RESOLVE_*. EAGAIN (a rename raced) is retried.
Result<UniqueFd> openat2(
    int dirfd, Path path, std::uint64_t flags, std::uint64_t mode, std::uint64_t resolve);
/// A copy of `fd` at `lowest` or above, with close-on-exec.
Result<UniqueFd> dup(int fd, int lowest = 0);
/// dup3(2): `to` becomes a copy of `fd`. `to` is closed first, silently.
Status dup_onto(int fd, int to, bool cloexec);
/// memfd_create(2) with MFD_CLOEXEC; `flags` may add MFD_ALLOW_SEALING and others.
Result<UniqueFd> memfd_create(const std::string& name, unsigned flags = 0);

// --- reading and writing ---

/// One read(2); 0 is end of file. Blocks unless the descriptor is non-blocking (then EAGAIN is an
/// error with that sys_errno()).
Result<std::size_t> read(int fd, std::span<std::byte> buffer);
Result<std::size_t> read(int fd, char* buffer, std::size_t size);
/// One write(2), possibly short. SIGPIPE is the caller's business (ignored in every role of sbx).
Result<std::size_t> write(int fd, std::span<const std::byte> data);
Result<std::size_t> write(int fd, std::string_view data);
/// Writes everything; waits with poll(2) when the descriptor is non-blocking. Blocks.
Status write_all(int fd, std::string_view data);
/// Reads to end of file; kLimit when there is more than `cap`. Memory grows with what arrives,
/// never with what a file says of its size. Blocks.
Result<std::string> read_all(int fd, Bytes cap);
/// splice(2) of at most `size` bytes without offsets; 0 is end of file.
Result<std::size_t> splice(int in, int out, std::size_t size, unsigned flags);
Status ftruncate(int fd, Bytes size);
Status fsync(int fd);

struct Pipe {
  UniqueFd r;  ///< read end
  UniqueFd w;  ///< write end
};
/// A pipe; `flags` may add O_NONBLOCK or O_DIRECT.
Result<Pipe> pipe(int flags = 0);

struct SocketPair {
  UniqueFd a;
  UniqueFd b;
};
/// Two connected AF_UNIX SOCK_SEQPACKET sockets.
Result<SocketPair> socketpair_seqpacket();
/// Two connected AF_UNIX SOCK_STREAM sockets.
Result<SocketPair> socketpair_stream();

Status set_nonblocking(int fd, bool on);
/// Asks for a pipe buffer of `size` bytes (F_SETPIPE_SZ); the size in force, 0 when unknown.
/// Best effort: an unprivileged user may be over /proc/sys/fs/pipe-user-pages-soft.
int set_pipe_size(int fd, int size);

/// poll(2). Number of ready entries; 0 after `timeout` (negative: no limit). EINTR continues with
/// the time that is left. Blocks.
Result<int> poll(std::span<pollfd> fds, Millis timeout);

// --- names ---

Status mkdirat(int dirfd, Path path, mode_t mode);
/// `flags`: 0 or AT_REMOVEDIR.
Status unlinkat(int dirfd, Path path, int flags = 0);
/// renameat2(2); `flags`: 0, RENAME_NOREPLACE or RENAME_EXCHANGE.
Status renameat(int from_dirfd, Path from, int to_dirfd, Path to, unsigned flags = 0);
Status symlinkat(Path target, int dirfd, Path path);
/// The target, whole; kLimit when it is longer than PATH_MAX.
Result<std::string> readlinkat(int dirfd, Path path);
Result<struct stat> fstat(int fd);
/// `flags`: AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH.
Result<struct stat> fstatat(int dirfd, Path path, int flags);
Status fchmod(int fd, mode_t mode);
Status fchown(int fd, uid_t uid, gid_t gid);
/// fchownat(2); `flags`: AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH.
Status fchownat(int dirfd, Path path, uid_t uid, gid_t gid, int flags);

// --- processes ---

/// clone3(2) as a fork: 0 in the child. Between this and exec the child may only make system calls
/// on data made before. `args` must not name a stack.
Result<pid_t> clone3(clone_args& args);
/// Moves a child that was just forked from our CPU to another one that it may use, where there is
/// one, so that both go on at once. The scheduler leaves it behind us when the others were busy at
/// the moment of the fork, and pulls nothing that ran less than 0.5 ms ago
/// (sched_migration_cost_ns). Its affinity is the same afterwards. Never fails: it is only sooner.
void move_from_our_cpu(pid_t child);
Status kill(pid_t pid, int signo);
Result<UniqueFd> pidfd_open(pid_t pid);
Status pidfd_send_signal(int pidfd, int signo);
/// waitid(P_PIDFD); `options`: WEXITED, WNOHANG, WNOWAIT. With WNOHANG and nobody to report,
/// si_pid is 0. Blocks without WNOHANG. `usage`, when not null, gets what it and the children that
/// it waited for have used (the raw call's fifth argument; getrusage(2)).
Result<siginfo_t> waitid_pidfd(int pidfd, int options, rusage* usage = nullptr);
/// The status as wait(2) would give it (WIFEXITED and friends) from waitid's answer.
int wait_status(const siginfo_t& info);
/// prctl(2) with unsigned long arguments; the call's value. `what` names it in an error, e.g.
/// "set no_new_privs".
Result<int> prctl(std::string_view what,
                  int option,
                  unsigned long a = 0,
                  unsigned long b = 0,
                  unsigned long c = 0);
/// close_range(2); `flags`: 0, CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE.
Status close_range(unsigned first, unsigned last, unsigned flags = 0);
/// execveat(2): returns only on failure. `argv` and `envp` end with nullptr. `flags`:
/// AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW.
Error execveat(int dirfd, Path path, char* const* argv, char* const* envp, int flags);
Status unshare(int flags);
/// setns(2); `nstype` 0 accepts any kind.
Status setns(int fd, int nstype);

// --- mounts (mount_setattr(2): Linux 5.12, the others 5.2) ---

/// open_tree(2) with OPEN_TREE_CLOEXEC; `flags`: OPEN_TREE_CLONE, AT_RECURSIVE, AT_EMPTY_PATH.
Result<UniqueFd> open_tree(int dirfd, Path path, unsigned flags);
/// move_mount(2); `flags`: MOVE_MOUNT_F_EMPTY_PATH and others.
Status move_mount(int from_dirfd, Path from, int to_dirfd, Path to, unsigned flags);
/// mount_setattr(2); `flags`: AT_RECURSIVE, AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW.
Status mount_setattr(int dirfd, Path path, unsigned flags, const mount_attr& attr);
/// fsopen(2) with FSOPEN_CLOEXEC, e.g. "tmpfs".
Result<UniqueFd> fsopen(const std::string& type);
Status fsconfig_set_string(int fsfd, const std::string& key, const std::string& value);
Status fsconfig_set_flag(int fsfd, const std::string& key);
/// FSCONFIG_CMD_CREATE. The kernel's own words (fsopen log) are added to the error.
Status fsconfig_create(int fsfd);
/// fsmount(2) with FSMOUNT_CLOEXEC; `attr_flags`: MOUNT_ATTR_*.
Result<UniqueFd> fsmount(int fsfd, unsigned attr_flags);
/// mount(2), for what is mounted by one call; `data` may be empty.
Status mount(Path source,
             Path target,
             const std::string& type,
             unsigned long flags,
             const std::string& data);
/// umount2(2); `flags`: MNT_DETACH, UMOUNT_NOFOLLOW.
Status umount2(Path path, int flags);
Status pivot_root(Path new_root, Path put_old);

}  // namespace sbx::sys
