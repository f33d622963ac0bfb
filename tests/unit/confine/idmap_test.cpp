#include "core/confine/idmap.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/base/fs.h"

#include "tests/support/skip.h"
#include "tests/unit/confine/in_child.h"

namespace sbx::confine {
namespace {

fs::TempDir temp_dir() {
  auto dir = fs::TempDir::create("/tmp", "sbx-unit-idmap-");
  REQUIRE(dir.ok());
  return std::move(dir).value();
}

}  // namespace

TEST_CASE("idmap: a range is whole, aligned and inside the bounds") {
  const fs::TempDir dir = temp_dir();
  const auto range = IdRange::claim(dir.path() + "/ids");
  REQUIRE(range.ok());
  CHECK(range.value().base() >= IdRange::kFirst);
  CHECK(range.value().base() % IdRange::kCount == 0);
  CHECK(std::uint64_t{range.value().base()} + IdRange::kCount <= IdRange::kEnd);
  struct stat info {};
  REQUIRE(::stat((dir.path() + "/ids").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0700);
}

TEST_CASE("idmap: two claims of one process differ, and a dropped one is free again") {
  const fs::TempDir dir = temp_dir();
  std::set<std::uint32_t> bases;
  std::vector<IdRange> held;
  for (;;) {
    auto range = IdRange::claim(dir.path());
    if (!range.ok()) {
      CHECK(range.error().code() == Errc::kLimit);
      break;
    }
    CHECK(bases.insert(range.value().base()).second);
    held.push_back(std::move(range).value());
    if (held.size() == 500) break;  // below the limit on open files
  }
  const std::uint32_t freed = held.back().base();
  held.pop_back();
  std::vector<IdRange> more;
  bool is_back = false;
  for (int i = 0; i < 300 && !is_back; ++i) {
    auto range = IdRange::claim(dir.path());
    REQUIRE(range.ok());
    CHECK((range.value().base() == freed || bases.insert(range.value().base()).second));
    is_back = range.value().base() == freed;
    more.push_back(std::move(range).value());
  }
}

TEST_CASE("idmap: 200 claims by processes at the same time never meet") {
  const fs::TempDir dir = temp_dir();
  constexpr int kProcesses = 200;
  std::array<int, 2> results{};
  std::array<int, 2> end{};
  REQUIRE(::pipe2(results.data(), O_CLOEXEC) == 0);
  REQUIRE(::pipe2(end.data(), O_CLOEXEC) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(end[1]);
      const auto range = IdRange::claim(dir.path());
      const std::uint32_t base = range.ok() ? range.value().base() : 0;
      if (::write(results[1], &base, sizeof base) != sizeof base) ::_exit(1);
      char byte = 0;
      (void)!::read(end[0], &byte, 1);  // holds it until all have one
      ::_exit(0);
    }
    children.push_back(pid);
  }
  std::set<std::uint32_t> bases;
  for (int i = 0; i < kProcesses; ++i) {
    std::uint32_t base = 0;
    REQUIRE(::read(results[0], &base, sizeof base) == sizeof base);
    CHECK(base != 0);
    CHECK(bases.insert(base).second);
  }
  for (const int fd : {end[1], end[0], results[0], results[1]}) {
    ::close(fd);
  }
  for (const pid_t pid : children) {
    ::waitpid(pid, nullptr, 0);
  }
  CHECK(bases.size() == kProcesses);
}

TEST_CASE("idmap: a copy of the descriptor in another process keeps the range") {
  const fs::TempDir dir = temp_dir();
  int copy = -1;
  std::uint32_t base = 0;
  {
    const auto range = IdRange::claim(dir.path());
    REQUIRE(range.ok());
    base = range.value().base();
    copy = ::dup(range.value().fd());
  }
  struct flock byte {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = (base - IdRange::kFirst) / IdRange::kCount;
  byte.l_len = 1;
  const int other = ::open((dir.path() + "/ranges.lock").c_str(), O_RDWR | O_CLOEXEC);
  CHECK(::fcntl(other, F_OFD_SETLK, &byte) == -1);
  ::close(copy);
  CHECK(::fcntl(other, F_OFD_SETLK, &byte) == 0);
  ::close(other);
}

TEST_CASE("idmap: a link in place of the lock file is not followed") {
  const fs::TempDir dir = temp_dir();
  REQUIRE(::symlink("/tmp/sbx-unit-elsewhere", (dir.path() + "/ranges.lock").c_str()) == 0);
  CHECK_FALSE(IdRange::claim(dir.path()).ok());
  CHECK(::access("/tmp/sbx-unit-elsewhere", F_OK) != 0);
}

TEST_CASE("idmap: a namespace for idmapped mounts has the maps asked for and no process") {
  SKIP_UNLESS("root");
  SKIP_UNLESS("userns");
  const std::array<IdMap, 2> maps{{{0, 0x70000000, 1000}, {1000, 0, 1}}};
  const auto space = idmap_userns(maps, maps);
  REQUIRE(space.ok());
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // the helper is reaped
  const int bad = test::in_child([&] {
    if (::setns(space.value().get(), 0) != 0) return 1;
    const auto map = fs::read_file("/proc/self/uid_map", Bytes{4096});
    if (!map.ok()) return 2;
    return map.value().find("0 1879048192       1000") != std::string::npos ? 0 : 3;
  });
  CHECK(bad == 0);
}

TEST_CASE("idmap: a map the kernel refuses is an error that shows it") {
  SKIP_UNLESS("root");
  const std::array<IdMap, 2> maps{{{0, 5, 10}, {5, 100, 10}}};  // overlap
  const auto space = idmap_userns(maps, maps);
  REQUIRE_FALSE(space.ok());
  CHECK(space.error().message().find("gid_map") != std::string::npos);
}

TEST_CASE("idmap: cost of a claim and of a namespace (printed, not judged)") {
  SKIP_UNLESS("root");
  const fs::TempDir dir = temp_dir();
  const std::array<IdMap, 1> map{{{0, 0x70000000, 1}}};
  std::vector<std::int64_t> claims;
  std::vector<std::int64_t> spaces;
  for (int i = 0; i < 50; ++i) {
    const std::int64_t t0 = monotonic_ns();
    CHECK(IdRange::claim(dir.path()).ok());
    const std::int64_t t1 = monotonic_ns();
    CHECK(idmap_userns(map, map).ok());
    const std::int64_t t2 = monotonic_ns();
    claims.push_back(t1 - t0);
    spaces.push_back(t2 - t1);
  }
  std::sort(claims.begin(), claims.end());
  std::sort(spaces.begin(), spaces.end());
  MESSAGE("claim: median " << claims[25] / 1000 << " us, namespace: " << spaces[25] / 1000
                           << " us");
}

TEST_CASE("idmap: what holds a namespace ends with its maker, however soon that is killed") {
  SKIP_UNLESS("userns");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (int i = 0; i < 20; ++i) {
    const pid_t maker = ::fork();
    if (maker == 0) {
      // One processor, so that the maker goes on before its child has begun; then the first file
      // that it opens kills it.
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
      ::sched_setaffinity(0, sizeof one, &one);
      std::array<sock_filter, 4> code{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
                                       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
      const sock_fprog filter{static_cast<unsigned short>(code.size()), code.data()};
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
      const IdMap map{0, 0, 1};
      (void)idmap_userns({&map, 1}, {&map, 1});
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(maker, &status, 0) == maker);
    REQUIRE(WIFSIGNALED(status));
    // The holder is ours to reap now. It ends by itself: nobody kills it.
    const std::int64_t end = monotonic_now().v + 10'000;
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, &status, WNOHANG)) == 0 && monotonic_now().v < end) {
      ::usleep(1000);
    }
    REQUIRE_MESSAGE(reaped > 0, "the holder lives on after its maker");
  }
}

}  // namespace sbx::confine
