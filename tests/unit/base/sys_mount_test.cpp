// Tests of the mount wrappers, in a child with a mount namespace of its own.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

using namespace sbx;

namespace {

constexpr int kCannot = 77;

/// Without a map no file can be made in a new user namespace (user_namespaces(7)).
bool map_own_ids(uid_t uid, gid_t gid) {
  const auto put = [](const std::string& path, const std::string& content) {
    const Result<UniqueFd> file = sys::open(path, O_WRONLY);
    return file.ok() && sys::write_all(file.value().get(), content).ok();
  };
  return put("/proc/self/setgroups", "deny") &&
         put("/proc/self/uid_map", text::cat("0 ", uid, " 1\n")) &&
         put("/proc/self/gid_map", text::cat("0 ", gid, " 1\n"));
}

/// Runs `act` where it may mount and nothing stays; its result, or kCannot.
template <typename F>
int in_own_mounts(F act) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const uid_t uid = ::geteuid();
    const gid_t gid = ::getegid();
    if (!sys::unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS).ok()) {
      ::_exit(kCannot);
    }
    if (uid != 0 && !map_own_ids(uid, gid)) ::_exit(kCannot);
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(kCannot);
    ::_exit(act());
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define CHECK_IN_OWN_MOUNTS(act)          \
  do {                                    \
    const int code = in_own_mounts(act);  \
    if (code == kCannot) {                \
      MESSAGE("SKIP: needs a namespace"); \
      return;                             \
    }                                     \
    CHECK(code == 0);                     \
  } while (false)

/// A tmpfs of 64 KiB that is mounted nowhere yet; invalid when that fails.
UniqueFd small_tmpfs() {
  const Result<UniqueFd> context = sys::fsopen("tmpfs");
  if (!context.ok()) return {};
  const int fd = context.value().get();
  if (!sys::fsconfig_set_string(fd, "size", "64k").ok()) return {};
  if (!sys::fsconfig_create(fd).ok()) return {};
  Result<UniqueFd> mount = sys::fsmount(fd, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
  if (!mount.ok()) return {};
  return std::move(mount).value();
}

}  // namespace

TEST_CASE("sys: a tmpfs is made, written before it has a place, then put there and unmounted") {
  CHECK_IN_OWN_MOUNTS([] {
    const fs::TempDir dir = fs::TempDir::create("/tmp", "sbx-test-").value();
    const UniqueFd mount = small_tmpfs();
    if (!mount.valid()) return 1;
    if (!sys::openat(mount.get(), "file", O_WRONLY | O_CREAT, 0644).ok()) return 2;
    if (!sys::move_mount(mount.get(), "", AT_FDCWD, dir.path(), MOVE_MOUNT_F_EMPTY_PATH).ok()) {
      return 3;
    }
    if (::access((dir.path() + "/file").c_str(), F_OK) != 0) return 4;
    if (!sys::umount2(dir.path(), MNT_DETACH).ok()) return 5;
    return ::access((dir.path() + "/file").c_str(), F_OK) == 0 ? 6 : 0;
  });
}

TEST_CASE("sys: a detached copy of a mount can be made read-only without touching the first") {
  CHECK_IN_OWN_MOUNTS([] {
    const UniqueFd mount = small_tmpfs();
    if (!mount.valid()) return 1;
    const fs::TempDir dir = fs::TempDir::create("/tmp", "sbx-test-").value();
    if (!sys::move_mount(mount.get(), "", AT_FDCWD, dir.path(), MOVE_MOUNT_F_EMPTY_PATH).ok()) {
      return 2;
    }
    const Result<UniqueFd> copy = sys::open_tree(AT_FDCWD, dir.path(), OPEN_TREE_CLONE);
    if (!copy.ok()) return 3;
    mount_attr attr{};
    attr.attr_set = MOUNT_ATTR_RDONLY;
    if (!sys::mount_setattr(copy.value().get(), "", AT_EMPTY_PATH, attr).ok()) return 4;
    const Result<UniqueFd> refused =
        sys::openat(copy.value().get(), "file", O_WRONLY | O_CREAT, 0644);
    if (refused.ok() || refused.error().sys_errno() != EROFS) return 5;
    if (!sys::openat(mount.get(), "file", O_WRONLY | O_CREAT, 0644).ok()) return 6;
    return sys::umount2(dir.path(), MNT_DETACH).ok() ? 0 : 7;
  });
}

TEST_CASE("sys: what the kernel says about a bad mount option is in the error") {
  CHECK_IN_OWN_MOUNTS([] {
    const Result<UniqueFd> context = sys::fsopen("tmpfs");
    if (!context.ok()) return kCannot;
    const Status set = sys::fsconfig_set_string(context.value().get(), "nonsense", "1");
    if (set.ok()) return 1;
    const std::string& message = set.error().message();
    if (message.find("set mount option nonsense=1 (") != 0) return 2;
    return message.find("nonsense", 30) == std::string::npos ? 3 : 0;
  });
  CHECK(!sys::fsopen("no-such-file-system").ok());
}

TEST_CASE("sys: a failed mount call names the path") {
  CHECK(sys::open_tree(AT_FDCWD, "/nonexistent", 0).error().message() ==
        "open mount /nonexistent: No such file or directory");
  CHECK(sys::umount2("/nonexistent", 0).error().message().starts_with("unmount /nonexistent: "));
}
