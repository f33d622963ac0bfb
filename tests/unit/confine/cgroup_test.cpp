#include "core/confine/cgroup.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/base/sys.h"

#include "tests/support/skip.h"
#include "tests/support/user.h"
#include "tests/unit/confine/in_child.h"

namespace sbx::confine {
namespace {

constexpr Bytes kMemory{64U << 20U};

CgroupLayout host_layout() {
  auto layout = probe_cgroups();
  REQUIRE(layout.ok());
  return std::move(layout).value();
}

CgroupRequest request(std::optional<Bytes> memory, std::optional<std::uint64_t> pids) {
  auto id = cgroup_id();
  REQUIRE(id.ok());
  CgroupRequest out;
  out.id = std::move(id).value();
  out.memory = memory;
  out.pids = pids;
  return out;
}

Cgroup create(const CgroupRequest& wanted) {
  auto group = Cgroup::create(host_layout(), wanted);
  if (!group.ok()) FAIL(group.error().to_string());
  return std::move(group).value();
}

int join(const Cgroup& group) {
  for (const UniqueFd& fd : group.join_fds()) {
    if (::write(fd.get(), "0", 1) != 1) return errno;
  }
  return 0;
}

/// A child in the group that sleeps until it is killed.
pid_t sleeper(const Cgroup& group) {
  int ready[2];
  REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (join(group) != 0) ::_exit(1);
    if (::write(ready[1], "r", 1) != 1) ::_exit(1);
    for (;;) {
      ::pause();
    }
  }
  char byte = 0;
  CHECK(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return pid;
}

int signal_of(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return -1;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/// Groups of this test process that exist now, in all places.
std::vector<std::string> groups_there() {
  const CgroupLayout layout = host_layout();
  const std::string own = "sbx-" + std::to_string(::getpid()) + "-";
  std::vector<std::string> out;
  for (const ControllerPlace* place :
       {&layout.memory, &layout.pids, &layout.cpu, &layout.accounting, &layout.freezer}) {
    if (!place->usable()) continue;
    for (const std::string& name : test::names_in(place->dir)) {
      if (name.starts_with(own)) out.push_back(place->dir + "/" + name);
    }
  }
  return out;
}

int eat_memory(std::size_t size) {
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 3;
  std::memset(memory, 1, size);
  return 0;
}

}  // namespace

TEST_CASE("cgroup: nothing wanted makes nothing, and every call succeeds") {
  auto group = Cgroup::create(CgroupLayout{}, CgroupRequest{});
  REQUIRE(group.ok());
  Cgroup& none = group.value();
  CHECK(none.join_fds().empty());
  CHECK(none.join_dir() == -1);
  CHECK(none.in_force().empty());
  CHECK(none.oom_kills().value() == 0);
  CHECK(none.pids_denied().value() == 0);
  CHECK_FALSE(none.usage().value().cpu_ns.has_value());
  CHECK(none.kill().ok());
  CHECK(none.remove().ok());
  CHECK_FALSE(none.freeze().ok());
}

TEST_CASE("cgroup: a limit without a place is refused with its fix") {
  CgroupLayout layout;
  layout.memory.cause = "no cgroup is delegated";
  layout.memory.fix = "delegate one";
  CgroupRequest wanted;
  wanted.id = "1-1-1-a";
  wanted.memory = kMemory;
  const auto group = Cgroup::create(layout, wanted);
  REQUIRE_FALSE(group.ok());
  CHECK(group.error().code() == Errc::kUnsupported);
  CHECK(group.error().to_string() == "no cgroup is delegated (hint: delegate one)");
}

TEST_CASE("cgroup: an id that could leave its directory is refused") {
  for (const char* id : {"", "..", "a/b", "A", "a b"}) {
    CgroupRequest wanted;
    wanted.id = id;
    wanted.pids = 5;
    CHECK_FALSE(Cgroup::create(CgroupLayout{}, wanted).ok());
  }
}

TEST_CASE("cgroup: memory and pids limits are in force as asked, swap included") {
  SKIP_UNLESS("cgroup-memory");
  Cgroup group = create(request(Bytes{kMemory.v + 100}, 20));
  REQUIRE(group.in_force().size() == 2);
  CHECK(group.in_force()[0].limit == "memory");
  CHECK(group.in_force()[0].value == std::to_string(kMemory.v));  // pages
  CHECK(group.in_force()[0].mechanism.starts_with("cgroup v"));
  CHECK(group.in_force()[1].limit == "pids");
  CHECK(group.in_force()[1].value == "20");
  CHECK(group.remove().ok());
  CHECK(groups_there().empty());
}

TEST_CASE("cgroup: a value the kernel would not hold is refused") {
  SKIP_UNLESS("cgroup-memory");
  const auto create_error = [](const CgroupRequest& wanted) {
    const auto group = Cgroup::create(host_layout(), wanted);
    return group.ok() ? std::string("created") : group.error().to_string();
  };
  CHECK(create_error(request(Bytes{UINT64_MAX}, std::nullopt)).find("memory limit") !=
        std::string::npos);
  CHECK(create_error(request(std::nullopt, 5'000'000)).find("at most 4194304") !=
        std::string::npos);
  CgroupRequest cpu = request(std::nullopt, std::nullopt);
  cpu.cpu_millis = 1;
  CHECK(create_error(cpu).find("at least 0.01") != std::string::npos);
  CHECK(groups_there().empty());
}

TEST_CASE("cgroup: more memory than the limit ends in the OOM killer, and is counted") {
  SKIP_UNLESS("cgroup-memory");
  Cgroup group = create(request(kMemory, std::nullopt));
  CHECK(test::in_child([&] { return join(group) != 0 ? 1 : eat_memory(8U << 20U); }) == 0);
  CHECK(group.oom_kills().value() == 0);
  CHECK(test::in_child([&] { return join(group) != 0 ? 1 : eat_memory(3 * kMemory.v); }) ==
        -SIGKILL);
  CHECK(group.oom_kills().value() == 1);
  CHECK(group.usage().value().max_memory.value_or(0) > kMemory.v / 2);
  CHECK(group.usage().value().max_memory.value_or(0) <= kMemory.v);
  CHECK(group.remove().ok());
}

TEST_CASE("cgroup: forks over the pids limit fail, and are counted") {
  SKIP_UNLESS("cgroup-pids");
  Cgroup group = create(request(std::nullopt, 5));
  const int made = test::in_child([&] {
    if (join(group) != 0) return 100;
    int count = 0;
    for (int i = 0; i < 20; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        for (;;) {
          ::pause();
        }
      }
      if (pid > 0) ++count;
    }
    return count;
  });
  CHECK(made == 4);
  CHECK(group.pids_denied().value() == 16);
  CHECK(group.processes().value().size() == 4);
  CHECK(group.kill().ok());
  CHECK(group.remove().ok());
  CHECK(groups_there().empty());
}

TEST_CASE("cgroup: processes of ours are let in on top of the limit, which is reported as asked") {
  SKIP_UNLESS("cgroup-pids");
  CgroupRequest wanted = request(std::nullopt, 2);
  wanted.own_processes = 1;
  const Cgroup group = create(wanted);
  CHECK(group.in_force().front().value == "2");
  const int made = test::in_child([&] {
    if (join(group) != 0) return 100;
    int count = 0;
    for (int i = 0; i < 5; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        for (;;)
          ::pause();
      }
      if (pid > 0) ++count;
    }
    return count;
  });
  CHECK(made == 2);
}

TEST_CASE("cgroup: clone3 straight into a v2 group puts the child and its children there") {
  SKIP_UNLESS("cgroup-v2");
  SKIP_UNLESS("cgroup-pids");
  const Cgroup group = create(request(kMemory, 10));
  REQUIRE(group.join_dir() >= 0);
  clone_args args{};
  args.flags = CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<__u64>(group.join_dir());
  const auto pid = sys::clone3(args);
  REQUIRE(pid.ok());
  if (pid.value() == 0) {
    if (::fork() < 0) ::_exit(1);
    for (;;)
      ::pause();
  }
  const std::int64_t deadline = monotonic_ns() + 10'000'000'000;
  while (group.processes().value().size() != 2 && monotonic_ns() < deadline) {
    ::usleep(1000);
  }
  CHECK(group.processes().value().size() == 2);
  CHECK(::kill(pid.value(), SIGKILL) == 0);
  CHECK(signal_of(pid.value()) == SIGKILL);
}

TEST_CASE("cgroup: one limit alone leaves no group behind, 25 times each") {
  SKIP_UNLESS("cgroup-memory");
  for (int i = 0; i < 25; ++i) {
    for (const bool with_remove : {true, false}) {
      Cgroup memory = create(request(kMemory, std::nullopt));
      Cgroup pids = create(request(std::nullopt, 10));
      CgroupRequest cpu_only = request(std::nullopt, std::nullopt);
      if (host_layout().cpu.usable()) cpu_only.cpu_millis = 1500;
      Cgroup cpu = create(cpu_only);
      if (!with_remove) continue;
      CHECK(memory.remove().ok());
      CHECK(pids.remove().ok());
      CHECK(cpu.remove().ok());
    }
  }
  CHECK(groups_there().empty());
}

TEST_CASE("cgroup: the CPU quota is in force, and CPU time is counted") {
  SKIP_UNLESS("cgroup-pids");
  const CgroupLayout layout = host_layout();
  if (!layout.cpu.usable() || !layout.accounting.usable()) {
    MESSAGE("SKIP: needs the cpu controller");
    return;
  }
  CgroupRequest wanted = request(std::nullopt, std::nullopt);
  wanted.cpu_millis = 100;
  wanted.accounting = true;
  Cgroup group = create(wanted);
  REQUIRE(group.in_force().size() == 1);
  CHECK(group.in_force()[0].value == "0.1");
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (join(group) != 0) ::_exit(1);
    for (;;) {
    }
  }
  const timespec pause{.tv_sec = 0, .tv_nsec = 600'000'000};
  ::nanosleep(&pause, nullptr);
  const std::uint64_t used = group.usage().value().cpu_ns.value_or(0);
  CHECK(used > 5'000'000);
  CHECK(used < 300'000'000);  // 60 ms of 600, and much room for a slow machine
  CHECK(group.kill().ok());
  CHECK(signal_of(pid) == SIGKILL);
  CHECK(group.remove().ok());
}

TEST_CASE("cgroup: a frozen group is killed and removed at once") {
  SKIP_UNLESS("cgroup-pids");
  CgroupRequest wanted = request(std::nullopt, 10);
  wanted.freezer = true;
  Cgroup group = create(wanted);
  const pid_t pid = sleeper(group);
  REQUIRE(group.freeze().ok());
  CHECK(group.thaw().ok());
  REQUIRE(group.freeze().ok());
  const std::int64_t start = monotonic_ns();
  CHECK(group.kill().ok());
  CHECK(signal_of(pid) == SIGKILL);
  CHECK(group.remove().ok());
  CHECK(monotonic_ns() - start < 2'000'000'000);
  CHECK(groups_there().empty());
}

TEST_CASE("cgroup: kill ends a fork bomb") {
  SKIP_UNLESS("cgroup-pids");
  for (const bool has_pids : {true, false}) {
    CAPTURE(has_pids);
    CgroupRequest wanted = has_pids ? request(std::nullopt, 60) : request(kMemory, std::nullopt);
    Cgroup group = create(wanted);
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (join(group) != 0) ::_exit(1);
      // Every process makes another one and ends: none of them lives long enough to be hit alone.
      for (int depth = 0; depth < 100'000; ++depth) {
        const pid_t next = ::fork();
        if (next > 0) ::_exit(0);
      }
      for (;;) {
        ::pause();
      }
    }
    const timespec pause{.tv_sec = 0, .tv_nsec = 50'000'000};
    ::nanosleep(&pause, nullptr);
    CHECK(group.kill().ok());
    CHECK(group.remove().ok());
    ::waitpid(pid, nullptr, 0);
  }
  CHECK(groups_there().empty());
}

TEST_CASE(
    "cgroup: processes that make and remove groups at the same time do not disturb each other") {
  SKIP_UNLESS("cgroup-memory");
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (int round = 0; round < 40; ++round) {
        const auto layout = probe_cgroups();
        if (!layout.ok()) ::_exit(1);
        reap_stale_cgroups(layout.value());
        CgroupRequest wanted;
        wanted.id = cgroup_id().value();
        wanted.memory = kMemory;
        wanted.pids = 10;
        auto group = Cgroup::create(layout.value(), wanted);
        if (!group.ok()) {
          (void)!::write(2, group.error().message().data(), group.error().message().size());
          ::_exit(2);
        }
        if (!group.value().remove().ok()) ::_exit(3);
      }
      ::_exit(0);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    CHECK(::waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
  }
}

TEST_CASE("cgroup: a swap that cannot be counted is marked, not hidden") {
  SKIP_UNLESS("cgroup-memory");
  CgroupLayout layout = host_layout();
  const auto group = Cgroup::create(layout, request(kMemory, std::nullopt));
  REQUIRE(group.ok());
  CHECK_FALSE(group.value().in_force()[0].approximate);
  layout.swap = SwapState::kUncounted;
  const auto leaky = Cgroup::create(layout, request(kMemory, std::nullopt));
  REQUIRE(leaky.ok());
  CHECK(leaky.value().in_force()[0].approximate);
}

TEST_CASE("cgroup: a destroyed group takes its processes with it") {
  SKIP_UNLESS("cgroup-pids");
  pid_t pid = -1;
  {
    const Cgroup group = create(request(std::nullopt, 10));
    pid = sleeper(group);
  }
  CHECK(signal_of(pid) == SIGKILL);
  CHECK(groups_there().empty());
}

TEST_CASE("cgroup: the groups of a killed supervisor are reaped, those of a living one stay") {
  SKIP_UNLESS("cgroup-memory");
  Cgroup living = create(request(kMemory, 10));
  std::string id;
  int names[2];
  REQUIRE(::pipe2(names, O_CLOEXEC) == 0);
  const pid_t supervisor = ::fork();
  if (supervisor == 0) {
    const auto own_id = cgroup_id();
    CgroupRequest wanted;
    wanted.id = own_id.value();
    wanted.memory = kMemory;
    wanted.pids = 10;
    wanted.freezer = true;
    auto group = Cgroup::create(host_layout(), wanted);
    if (!group.ok()) ::_exit(1);
    const pid_t payload = sleeper(group.value());
    if (payload < 0 || !group.value().freeze().ok()) ::_exit(1);
    if (::write(names[1], wanted.id.data(), wanted.id.size()) < 0) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  CHECK(signal_of(supervisor) == SIGKILL);
  char buffer[200];
  const ssize_t size = ::read(names[0], buffer, sizeof buffer);
  REQUIRE(size > 0);
  ::close(names[0]);
  ::close(names[1]);
  const CgroupLayout layout = host_layout();
  const std::string dead =
      layout.pids.dir + "/sbx-" + std::string(buffer, static_cast<std::size_t>(size));
  struct stat info {};
  CHECK(::stat(dead.c_str(), &info) == 0);
  CHECK(reap_stale_cgroups(layout) >= 1);
  CHECK(::stat(dead.c_str(), &info) != 0);
  CHECK(reap_stale_cgroups(layout) == 0);
  CHECK_FALSE(groups_there().empty());
  CHECK(living.remove().ok());
}

TEST_CASE("cgroup: fractions of a CPU are written without superfluous digits") {
  CHECK(cpus_text(1000) == "1");
  CHECK(cpus_text(1500) == "1.5");
  CHECK(cpus_text(250) == "0.25");
  CHECK(cpus_text(10) == "0.01");
  CHECK(cpus_text(12345) == "12.345");
}

TEST_CASE("cgroup: cost of probing, making, joining, reaping and removing (printed, not judged)") {
  SKIP_UNLESS("cgroup-memory");
  constexpr int kRounds = 50;
  struct Step {
    const char* name;
    std::vector<std::int64_t> ns{};
  };
  Step probe{"probe"}, reap{"reap"}, make{"make"}, remove{"remove"};
  for (int i = 0; i < kRounds; ++i) {
    const std::int64_t t0 = monotonic_ns();
    const CgroupLayout layout = host_layout();
    const std::int64_t t1 = monotonic_ns();
    reap_stale_cgroups(layout);
    const std::int64_t t2 = monotonic_ns();
    auto group = Cgroup::create(layout, request(kMemory, 100));
    const std::int64_t t3 = monotonic_ns();
    CHECK(group.value().remove().ok());
    const std::int64_t t4 = monotonic_ns();
    probe.ns.push_back(t1 - t0);
    reap.ns.push_back(t2 - t1);
    make.ns.push_back(t3 - t2);
    remove.ns.push_back(t4 - t3);
  }
  for (Step* step : {&probe, &reap, &make, &remove}) {
    std::sort(step->ns.begin(), step->ns.end());
    MESSAGE(std::string(step->name) << ": median " << step->ns[kRounds / 2] / 1000 << " us");
  }
}

}  // namespace sbx::confine
