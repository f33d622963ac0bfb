// Tests of remove_tree against trees that hostile code makes.
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"

#include "tests/support/skip.h"

using namespace sbx;

namespace {

fs::TempDir temp(const std::string& parent = "/tmp") {
  return fs::TempDir::create(parent, "sbx-test-").value();
}

void put(int dirfd, const std::string& name) {
  REQUIRE(sys::openat(dirfd, name, O_WRONLY | O_CREAT, 0644).ok());
}

void make(int dirfd, const std::string& name, mode_t mode = 0755) {
  REQUIRE(sys::mkdirat(dirfd, name, mode).ok());
}

bool is_there(int dirfd, const std::string& name) {
  return ::faccessat(dirfd, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/// Makes `depth` directories "d", one in the other, below `dirfd`.
void make_chain(int dirfd, int depth) {
  UniqueFd at = sys::dup(dirfd).value();
  for (int i = 0; i < depth; ++i) {
    if (::mkdirat(at.get(), "d", 0755) == -1) FAIL("mkdir at depth ", i, ": errno ", errno);
    at = sys::openat(at.get(), "d", O_PATH | O_DIRECTORY).value();
  }
  put(at.get(), "leaf");
}

/// The same while others move directories about: whatever of it can be made.
void try_chain(int dirfd, int depth) {
  UniqueFd at = sys::dup(dirfd).value();
  for (int i = 0; i < depth; ++i) {
    ::mkdirat(at.get(), "d", 0755);
    Result<UniqueFd> next = sys::openat(at.get(), "d", O_PATH | O_DIRECTORY);
    if (!next.ok()) return;
    at = std::move(next).value();
  }
}

/// Runs `act` in a forked child without any privilege; its result is the exit code.
template <typename F>
int unprivileged(F act) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0) {
      if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) {
        ::_exit(99);
      }
    }
    ::_exit(act());
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("remove_tree: files, links, sockets and directories go, what links point to stays") {
  const fs::TempDir dir = temp();
  put(dir.fd(), "outside");
  make(dir.fd(), "outside-dir");
  put(dir.fd(), "outside-dir/file");
  make(dir.fd(), "tree");
  make(dir.fd(), "tree/a");
  make(dir.fd(), "tree/a/b");
  put(dir.fd(), "tree/a/b/file");
  put(dir.fd(), "tree/strange\n\x1b name");
  REQUIRE(::mkfifoat(dir.fd(), "tree/fifo", 0600) == 0);
  REQUIRE(sys::symlinkat("../outside", dir.fd(), "tree/link").ok());
  REQUIRE(sys::symlinkat("../../outside-dir", dir.fd(), "tree/a/dir-link").ok());
  CHECK(fs::remove_tree(dir.fd(), "tree").ok());
  CHECK(!is_there(dir.fd(), "tree"));
  CHECK(is_there(dir.fd(), "outside"));
  CHECK(is_there(dir.fd(), "outside-dir/file"));
}

TEST_CASE("remove_tree: a missing name, a file and a link are removed as such") {
  const fs::TempDir dir = temp();
  CHECK(fs::remove_tree(dir.fd(), "nothing").ok());
  put(dir.fd(), "file");
  CHECK(fs::remove_tree(dir.fd(), "file").ok());
  make(dir.fd(), "target");
  put(dir.fd(), "target/file");
  REQUIRE(sys::symlinkat("target", dir.fd(), "link").ok());
  CHECK(fs::remove_tree(dir.fd(), "link").ok());
  CHECK(!is_there(dir.fd(), "link"));
  CHECK(is_there(dir.fd(), "target/file"));
}

TEST_CASE("remove_tree: anything but one name is refused") {
  const fs::TempDir dir = temp();
  for (const std::string name : {"", ".", "..", "a/b", "/", "/etc"}) {
    CAPTURE(name);
    CHECK(fs::remove_tree(dir.fd(), name).error().code() == Errc::kInternal);
  }
}

TEST_CASE("remove_tree: 100,000 levels, with few descriptors and a small stack") {
  const fs::TempDir dir = temp("/dev/shm");
  make(dir.fd(), "tree");
  make_chain(sys::openat(dir.fd(), "tree", O_PATH).value().get(), 100'000);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit few{32, 32};
    ::setrlimit(RLIMIT_NOFILE, &few);
    ::_exit(fs::remove_tree(dir.fd(), "tree").ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(status == 0);
  CHECK(!is_there(dir.fd(), "tree"));
}

TEST_CASE("remove_tree: runs even when only a handful of descriptors is left") {
  const fs::TempDir dir = temp();
  make(dir.fd(), "tree");
  make_chain(sys::openat(dir.fd(), "tree", O_PATH).value().get(), 50);
  const int highest = sys::dup(0).value().get();
  const pid_t pid = ::fork();
  if (pid == 0) {
    const auto limit = static_cast<rlim_t>(highest) + 4;
    const rlimit few{limit, limit};
    ::setrlimit(RLIMIT_NOFILE, &few);
    ::_exit(fs::remove_tree(dir.fd(), "tree").ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("remove_tree: many directories in one, deeper than the descriptors kept") {
  const fs::TempDir dir = temp("/dev/shm");
  make(dir.fd(), "tree");
  for (int i = 0; i < 300; ++i) {
    const std::string name = text::cat("tree/", i);
    make(dir.fd(), name);
    make_chain(sys::openat(dir.fd(), name, O_PATH).value().get(), 40);
  }
  CHECK(fs::remove_tree(dir.fd(), "tree").ok());
  CHECK(!is_there(dir.fd(), "tree"));
}

TEST_CASE("remove_tree: directories that forbid everything to their owner") {
  const int code = unprivileged([] {
    const fs::TempDir dir = temp();
    make(dir.fd(), "tree");
    for (const mode_t mode : {0000U, 0100U, 0200U, 0400U, 0500U, 0600U}) {
      const std::string name = text::cat("tree/", mode);
      make(dir.fd(), name);
      make(dir.fd(), name + "/sub");
      put(dir.fd(), name + "/sub/file");
      if (::fchmodat(dir.fd(), (name + "/sub").c_str(), mode, 0) != 0) return 2;
      if (::fchmodat(dir.fd(), name.c_str(), mode, 0) != 0) return 2;
    }
    if (::fchmodat(dir.fd(), "tree", 0000, 0) != 0) return 3;
    if (!fs::remove_tree(dir.fd(), "tree").ok()) return 1;
    return is_there(dir.fd(), "tree") ? 4 : 0;
  });
  CHECK(code == 0);
}

TEST_CASE("remove_tree: what belongs to others stays, is reported, and the rest still goes") {
  if (::geteuid() != 0) {
    MESSAGE("SKIP: needs root to make files of another user");
    return;
  }
  const fs::TempDir dir = temp();
  REQUIRE(::fchmod(dir.fd(), 0777) == 0);
  make(dir.fd(), "tree", 0777);
  REQUIRE(::fchmodat(dir.fd(), "tree", 0777, 0) == 0);
  make(dir.fd(), "tree/foreign");
  put(dir.fd(), "tree/foreign/file");
  const int code = unprivileged([&] {
    make(dir.fd(), "tree/own");
    put(dir.fd(), "tree/own/file");
    make_chain(sys::openat(dir.fd(), "tree/own", O_PATH).value().get(), 40);
    const Status removed = fs::remove_tree(dir.fd(), "tree");
    if (removed.ok()) return 1;
    if (removed.error().code() != Errc::kDenied) return 2;
    return is_there(dir.fd(), "tree/own") ? 3 : 0;
  });
  CHECK(code == 0);
  CHECK(is_there(dir.fd(), "tree/foreign/file"));
}

TEST_CASE("remove_tree: a mount in the tree is not entered") {
  // In a child with its own mount namespace, so that nothing can stay mounted.
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::unshare(::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) ::_exit(77);
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(77);
    const fs::TempDir dir = temp();
    make(dir.fd(), "tree");
    make(dir.fd(), "tree/mount");
    make(dir.fd(), "tree/other");
    make(dir.fd(), "precious");
    put(dir.fd(), "precious/file");
    const std::string from = dir.path() + "/precious";
    const std::string to = dir.path() + "/tree/mount";
    if (::mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) != 0) ::_exit(77);
    const Status removed = fs::remove_tree(dir.fd(), "tree");
    int code = 0;
    if (removed.ok()) code = 1;
    if (!is_there(dir.fd(), "precious/file")) code = 2;
    if (is_there(dir.fd(), "tree/other")) code = 3;
    ::umount2(to.c_str(), MNT_DETACH);
    if (!fs::remove_tree(dir.fd(), "tree").ok()) code = 4;
    static_cast<void>(fs::remove_tree(dir.fd(), "precious"));
    ::rmdir(dir.path().c_str());
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WEXITSTATUS(status) == 77) {
    MESSAGE("SKIP: needs mount");
    return;
  }
  CHECK(status == 0);
}

TEST_CASE("remove_tree: a directory that is swapped for a link all the time does not lead out") {
  const fs::TempDir dir = temp("/dev/shm");
  make(dir.fd(), "precious");
  put(dir.fd(), "precious/file");
  const std::string precious = dir.path() + "/precious";
  make(dir.fd(), "tree");
  make(dir.fd(), "tree/a");
  ChildProcess swapper = [&] {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (;;) {
        ::mkdirat(dir.fd(), "tree/a", 0755);
        ::mkdirat(dir.fd(), "tree/a/x", 0755);
        static_cast<void>(sys::symlinkat(precious, dir.fd(), "tree/link"));
        ::renameat2(dir.fd(), "tree/a", dir.fd(), "tree/link", RENAME_EXCHANGE);
        ::renameat(dir.fd(), "tree/a/x", dir.fd(), "escaped");
        ::renameat(dir.fd(), "escaped", dir.fd(), "tree/b");
      }
    }
    return ChildProcess(pid, sys::pidfd_open(pid).value());
  }();
  const std::int64_t end = monotonic_ns() + 300'000'000;
  while (monotonic_ns() < end) {
    static_cast<void>(fs::remove_tree(dir.fd(), "tree"));
    ::mkdirat(dir.fd(), "tree", 0755);
  }
  CHECK(swapper.kill(SIGKILL).ok());
  CHECK(swapper.wait().ok());
  CHECK(is_there(dir.fd(), "precious/file"));
  CHECK(fs::remove_tree(dir.fd(), "tree").ok());
  CHECK(!is_there(dir.fd(), "tree"));
}

TEST_CASE("remove_tree: a deep directory moved out of the tree meanwhile does no harm") {
  const fs::TempDir dir = temp("/dev/shm");
  make(dir.fd(), "precious");
  put(dir.fd(), "precious/file");
  make(dir.fd(), "outside");
  ChildProcess mover = [&] {
    const pid_t pid = ::fork();
    if (pid == 0) {
      const std::string deep = "tree/d/d/d/d/d/d/d/d/d/d";
      for (;;) {
        ::renameat(dir.fd(), deep.c_str(), dir.fd(), "outside/d");
        ::renameat(dir.fd(), "outside/d", dir.fd(), deep.c_str());
      }
    }
    return ChildProcess(pid, sys::pidfd_open(pid).value());
  }();
  const std::int64_t end = monotonic_ns() + 300'000'000;
  while (monotonic_ns() < end) {
    if (::mkdirat(dir.fd(), "tree", 0755) == 0) {
      try_chain(sys::openat(dir.fd(), "tree", O_PATH).value().get(), 60);
    }
    static_cast<void>(fs::remove_tree(dir.fd(), "tree"));
  }
  CHECK(mover.kill(SIGKILL).ok());
  CHECK(mover.wait().ok());
  CHECK(is_there(dir.fd(), "precious/file"));
  CHECK(is_there(dir.fd(), "outside"));
  CHECK(fs::remove_tree(dir.fd(), "tree").ok());
}
