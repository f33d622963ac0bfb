#include "core/confine/cgroup.h"

#include <linux/sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/confine/host_text.h"

#include "tests/support/skip.h"
#include "tests/unit/confine/cgroup_on_host.h"
#include "tests/unit/confine/in_child.h"

namespace sbx::confine {
namespace {

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
  const int made = test::in_child([&] { return join(group) != 0 ? 100 : test::count_forks(20); });
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
  const int made = test::in_child([&] { return join(group) != 0 ? 100 : test::count_forks(5); });
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
    test::sleep_for_ever();
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
    // A loop without an effect may be left out (clang does).
    volatile unsigned turns = 0;
    for (;;) {
      const unsigned next = turns + 1;
      turns = next;
    }
  }
  // No time is judged here, only that the kernel made it wait.
  std::uint64_t throttled = 0;
  const std::int64_t deadline = monotonic_ns() + 20'000'000'000;
  while (throttled == 0 && monotonic_ns() < deadline) {
    ::usleep(50'000);
    const auto stat =
        fs::read_file(layout.cpu.dir + "/sbx-" + wanted.id + "/cpu.stat", Bytes{4096});
    REQUIRE(stat.ok());
    throttled = find_counter(stat.value(), "nr_throttled").value_or(0);
  }
  CHECK(throttled > 0);
  CHECK(group.usage().value().cpu_ns.value_or(0) > 5'000'000);
  CHECK(group.kill().ok());
  CHECK(signal_of(pid) == SIGKILL);
  CHECK(group.remove().ok());
}

TEST_CASE("cgroup: fractions of a CPU are written without superfluous digits") {
  CHECK(cpus_text(1000) == "1");
  CHECK(cpus_text(1500) == "1.5");
  CHECK(cpus_text(250) == "0.25");
  CHECK(cpus_text(10) == "0.01");
  CHECK(cpus_text(12345) == "12.345");
}

}  // namespace sbx::confine
