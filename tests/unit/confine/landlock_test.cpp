#include "core/confine/landlock.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"

#include "tests/support/skip.h"
#include "tests/unit/confine/in_child.h"

namespace sbx::confine {
namespace {

bool write_own(const char* file, const std::string& text) {
  const int fd = ::open(file, O_WRONLY | O_CLOEXEC);
  return fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

int pivot_root(const char* root) {
  return static_cast<int>(::syscall(SYS_pivot_root, root, root));
}

/// Changes the root to a tmpfs that holds only the host's /usr and /proc, as a jail does.
int enter_jail(const std::string& dir) {
  const auto made = [](const std::string& path) { return ::mkdir(path.c_str(), 0755) == 0; };
  const std::string uid = "0 " + std::to_string(::getuid()) + " 1";
  const std::string gid = "0 " + std::to_string(::getgid()) + " 1";
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 20;
  if (!write_own("/proc/self/setgroups", "deny") || !write_own("/proc/self/uid_map", uid) ||
      !write_own("/proc/self/gid_map", gid)) {
    return 29;
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 21;
  if (::mount("tmpfs", dir.c_str(), "tmpfs", 0, nullptr) != 0) return 22;
  if (!made(dir + "/usr") || !made(dir + "/proc")) return 23;
  if (::mount("/usr", (dir + "/usr").c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return 24;
  if (::mount("/proc", (dir + "/proc").c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return 25;
  if (::chdir(dir.c_str()) != 0 || pivot_root(".") != 0) return 26;
  if (::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0) return 27;
  for (const char* name : {"lib", "lib64", "bin"}) {
    if (::symlink((std::string("usr/") + name).c_str(), name) != 0) return 28;
  }
  return 0;
}

struct Attack {
  bool with_landlock;
  int open_flags;
};

/// In a jail with a descriptor of a host file outside of the root: 0 when neither opening it again
/// through /proc nor executing it works, else what worked.
int attack(const std::string& host_file, const std::string& dir, Attack how) {
  const int fd = ::open(host_file.c_str(), how.open_flags | O_CLOEXEC);
  if (fd < 0) return 30;
  if (const int err = enter_jail(dir); err != 0) return err;
  if (how.with_landlock && landlock_only_beneath_root_in_child() != 0) return 31;
  const std::string magic = "/proc/self/fd/" + std::to_string(fd);
  const int again = ::open(magic.c_str(), O_RDONLY);
  if (again >= 0) return 40;
  if (errno != EACCES) return 41;
  const int status = test::in_child([&] {
    ::execl(magic.c_str(), "host-file", nullptr);
    return errno == EACCES ? 50 : 51;
  });
  return status == 50 ? 0 : 42;
}

}  // namespace

TEST_CASE("landlock: the ABI is known, or 0") {
  CHECK(landlock_abi() >= 0);
  CHECK(landlock_abi() < 1000);
}

TEST_CASE("landlock: a host file held open outside the root is neither opened nor executed") {
  SKIP_UNLESS("userns");
  if (landlock_abi() < 2) {
    MESSAGE("SKIP: needs Landlock ABI 2");
    return;
  }
  auto temp = fs::TempDir::create("/tmp", "sbx-unit-landlock-");
  REQUIRE(temp.ok());
  const std::string dir = temp.value().path() + "/root";
  REQUIRE(::mkdir(dir.c_str(), 0755) == 0);
  const std::string program = temp.value().path() + "/program";
  // A script, so that it needs no library of the host.
  REQUIRE(fs::write_atomic(temp.value().fd(), "program", "#!/usr/bin/env true\n", 0755).ok());
  const auto attacked = [&](bool with_landlock, int flags) {
    return test::in_child([&] { return attack(program, dir, {with_landlock, flags}); });
  };
  CHECK(attacked(true, O_RDONLY) == 0);
  CHECK(attacked(true, O_PATH) == 0);
  // The same without it succeeds: the test would notice if the attack were none.
  CHECK(attacked(false, O_RDONLY) == 40);
  CHECK(attacked(false, O_PATH) == 40);
}

TEST_CASE("landlock: everything beneath the root still works") {
  SKIP_UNLESS("userns");
  if (landlock_abi() < 2) {
    MESSAGE("SKIP: needs Landlock ABI 2");
    return;
  }
  auto temp = fs::TempDir::create("/tmp", "sbx-unit-landlock-");
  REQUIRE(temp.ok());
  const int bad = test::in_child([&] {
    if (const int err = enter_jail(temp.value().path()); err != 0) return err;
    if (landlock_only_beneath_root_in_child() != 0) return 1;
    if (::mkdir("/a", 0755) != 0 || ::mkdir("/b", 0755) != 0) return 2;
    const int fd = ::open("/a/f", O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ::write(fd, "x", 1) != 1) return 3;
    if (::truncate("/a/f", 0) != 0) return 4;
    if (::rename("/a/f", "/b/f") != 0) return 5;  // between directories: ABI 2
    if (::link("/b/f", "/a/g") != 0) return 6;
    if (::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY) < 0) return 7;
    const int memory = static_cast<int>(::syscall(SYS_memfd_create, "m", 0));
    if (::open(("/proc/self/fd/" + std::to_string(memory)).c_str(), O_RDWR) < 0) return 8;
    int pipe_fds[2];
    if (::pipe(pipe_fds) != 0) return 9;
    if (::open(("/proc/self/fd/" + std::to_string(pipe_fds[1])).c_str(), O_WRONLY) < 0) return 10;
    if (::unlink("/a/g") != 0 || ::unlink("/b/f") != 0 || ::rmdir("/a") != 0) return 11;
    return test::in_child([] {
      ::execl("/usr/bin/env", "env", "sh", "-c", "exit 0", nullptr);
      return 12;
    });
  });
  CHECK(bad == 0);
}

}  // namespace sbx::confine
