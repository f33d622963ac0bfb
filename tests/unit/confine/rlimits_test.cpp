#include "core/confine/rlimits.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/confine/caps.h"
#include "core/confine/idmap.h"

#include "tests/support/skip.h"
#include "tests/unit/confine/in_child.h"

namespace sbx::confine {

TEST_CASE("rlimits: the request is set, soft and hard, with no core dumps") {
  const RlimitSet set =
      prepare_rlimits({.open_files = 33, .data = Bytes{1U << 30U}, .processes = 7});
  const int bad = test::in_child([&] {
    if (apply_rlimits_in_child(set) != 0) return 1;
    rlimit now{};
    if (::getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur != 33 || now.rlim_max != 33) return 2;
    if (::getrlimit(RLIMIT_CORE, &now) != 0 || now.rlim_max != 0) return 3;
    if (::getrlimit(RLIMIT_DATA, &now) != 0 || now.rlim_max != 1U << 30U) return 4;
    if (::getrlimit(RLIMIT_NPROC, &now) != 0 || now.rlim_max != 7) return 5;
    return 0;
  });
  CHECK(bad == 0);
}

TEST_CASE("rlimits: more than the caller may have is lowered to what it has") {
  const int bad = test::in_child([] {
    const rlimit low{50, 60};
    if (::setrlimit(RLIMIT_NOFILE, &low) != 0) return 1;
    const RlimitSet set = prepare_rlimits({.open_files = 1000, .data = {}, .processes = {}});
    return rlimits_in_force(set).front().value == "60" ? 0 : 2;
  });
  CHECK(bad == 0);
}

TEST_CASE("rlimits: CPU time warns first and kills a second later") {
  RlimitRequest request;
  request.cpu_seconds = 3;
  const RlimitSet set = prepare_rlimits(request);
  const int bad = test::in_child([&] {
    if (apply_rlimits_in_child(set) != 0) return 1;
    rlimit now{};
    if (::getrlimit(RLIMIT_CPU, &now) != 0) return 2;
    return now.rlim_cur == 3 && now.rlim_max == 4 ? 0 : 3;
  });
  CHECK(bad == 0);
  const auto limits = rlimits_in_force(set);
  REQUIRE(limits.size() == 2);
  CHECK(limits[1].limit == "cpu_time");
  CHECK(limits[1].value == "3000ms");
  CHECK(limits[1].approximate);
}

TEST_CASE("rlimits: the data limit is marked as approximate") {
  const auto limits =
      rlimits_in_force(prepare_rlimits({.open_files = 20, .data = Bytes{4096}, .processes = 9}));
  REQUIRE(limits.size() == 3);
  CHECK(limits[0].limit == "open_files");
  CHECK(limits[1].limit == "memory");
  CHECK(limits[1].approximate);
  CHECK(limits[2].limit == "pids");
  CHECK_FALSE(limits[2].approximate);
}

namespace {

/// VmData of this process in bytes.
std::uint64_t data_in_use() {
  const auto text = fs::read_file("/proc/self/status", Bytes{65536});
  REQUIRE(text.ok());
  const std::size_t at = text.value().find("VmData:");
  REQUIRE(at != std::string::npos);
  return std::strtoull(text.value().c_str() + at + std::strlen("VmData:"), nullptr, 10) * 1024;
}

}  // namespace

TEST_CASE("rlimits: the data limit stops allocation, not reservation of address space") {
  // On top of what the test itself has (with sanitizers that is a lot).
  const Bytes limit{data_in_use() + (64U << 20U)};
  const RlimitSet set = prepare_rlimits({.open_files = 64, .data = limit, .processes = {}});
  const int bad = test::in_child([&] {
    if (apply_rlimits_in_child(set) != 0) return 1;
    constexpr std::size_t kLarge = std::size_t{8} << 30U;
    // As Node, Go and Java begin.
    void* const reserved =
        ::mmap(nullptr, kLarge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return 2;
    if (::mprotect(reserved, 16U << 20U, PROT_READ | PROT_WRITE) != 0) return 3;
    if (::mprotect(reserved, 512U << 20U, PROT_READ | PROT_WRITE) == 0) return 4;
    return ::mmap(
               nullptr, 512U << 20U, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                   MAP_FAILED
               ? 0
               : 5;
  });
  CHECK(bad == 0);
}

namespace {

/// In a new user namespace: becomes its user 1000 under `set` and forks as often as it can. The
/// count, or above 200 what went wrong.
int fork_in_userns(const RlimitSet& set, int ready) {
  if (::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0 || ::write(ready, "u", 1) != 1) return 201;
  ::raise(SIGSTOP);  // until the maps are written
  // PID 1 of its namespace: all others die with it.
  return test::in_child([&] {
    if (become_user_in_child(1000, 1000, false) != 0) return 202;
    if (drop_all_caps_in_child(0) != 0 || apply_rlimits_in_child(set) != 0) return 203;
    return test::count_forks(60);
  });
}

/// How many of 60 forks worked in a new user namespace under RLIMIT_NPROC `limit`.
int forks_in_userns(std::uint64_t limit) {
  std::array<int, 2> go{};
  if (::pipe(go.data()) != 0) return 200;
  const RlimitSet set = prepare_rlimits({.open_files = 64, .data = {}, .processes = limit});
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(fork_in_userns(set, go[1]));
  char byte = 0;
  if (::read(go[0], &byte, 1) != 1) return 204;
  int status = 0;
  ::waitpid(pid, &status, WUNTRACED);
  const std::array<IdMap, 1> uid{{{1000, ::getuid() == 0 ? 0x7ffd0000U : ::getuid(), 1}}};
  const std::array<IdMap, 1> gid{{{1000, ::getuid() == 0 ? 0x7ffd0000U : ::getgid(), 1}}};
  if (!write_idmaps(pid, uid, gid, ::getuid() != 0).ok()) return 205;
  ::kill(pid, SIGCONT);
  ::waitpid(pid, &status, 0);
  ::close(go[0]);
  ::close(go[1]);
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("rlimits: the process limit counts per user namespace, so it is the sandbox's alone") {
  SKIP_UNLESS("userns");
  // However many the same user runs outside. PID 1 and its parent count as well.
  const int with_10 = forks_in_userns(10);
  CAPTURE(with_10);
  CHECK(with_10 >= 7);
  CHECK(with_10 <= 9);
  CHECK(forks_in_userns(30) == with_10 + 20);
}

}  // namespace sbx::confine
