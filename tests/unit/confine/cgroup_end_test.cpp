// How groups end: killed, frozen, destroyed, left by a crash, many at once.
#include <linux/sched.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/confine/cgroup.h"

#include "tests/support/skip.h"
#include "tests/unit/confine/cgroup_on_host.h"
#include "tests/unit/confine/in_child.h"

namespace sbx::confine {

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

TEST_CASE("cgroup: SIGKILL ends one frozen process, and the other stays frozen") {
  SKIP_UNLESS("cgroup-pids");
  CgroupRequest wanted = request(std::nullopt, 10);
  wanted.freezer = true;
  Cgroup group = create(wanted);
  const pid_t victim = sleeper(group);
  const pid_t other = sleeper(group);
  REQUIRE(group.freeze().ok());
  REQUIRE(::kill(victim, SIGKILL) == 0);
  CHECK(group.release_killed().ok());
  CHECK(signal_of(victim) == SIGKILL);
  CHECK(group.is_frozen_as(true).value());
  CHECK(group.processes().value() == std::vector<pid_t>{other});
  CHECK(group.kill().ok());
  CHECK(signal_of(other) == SIGKILL);
  CHECK(group.remove().ok());
}

namespace {

/// A child in a v2 group that sends back each byte that it gets.
class Echo {
 public:
  explicit Echo(int dir) {
    auto pair = sys::socketpair_seqpacket();
    REQUIRE(pair.ok());
    clone_args args{};
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = SIGCHLD;
    args.cgroup = static_cast<__u64>(dir);
    const auto pid = sys::clone3(args);
    REQUIRE(pid.ok());
    char byte = 0;
    while (pid.value() == 0) {
      if (::read(pair.value().a.get(), &byte, 1) < 1) ::_exit(0);
      if (::write(pair.value().a.get(), &byte, 1) < 1) ::_exit(0);
    }
    pid_ = pid.value();
    ours_ = std::move(pair.value().b);
  }
  pid_t pid() const { return pid_; }
  /// Whether all that was asked comes back in time.
  bool answers(int milliseconds) const {
    char byte = 'x';
    CHECK(::write(ours_.get(), &byte, 1) == 1);
    ++asked_;
    while (asked_ > 0) {
      pollfd polled{ours_.get(), POLLIN, 0};
      if (::poll(&polled, 1, milliseconds) != 1) return false;
      CHECK(::read(ours_.get(), &byte, 1) == 1);
      --asked_;
    }
    return true;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd ours_;
  mutable int asked_ = 0;
};

}  // namespace

TEST_CASE("cgroup: a split group freezes its lower part alone, and goes with it") {
  SKIP_UNLESS("cgroup-v2");
  const auto id = cgroup_id();
  REQUIRE(id.ok());
  Cgroup group = Cgroup::create_ahead(host_layout(), id.value());
  REQUIRE(group.join_dir() >= 0);
  REQUIRE(group.split(std::nullopt).ok());
  REQUIRE(group.job_dir() >= 0);
  const Echo first(group.join_dir());
  const Echo job(group.job_dir());
  CHECK(group.job_processes().value() == std::vector<pid_t>{job.pid()});
  CHECK(group.processes().value().size() == 2);
  CHECK(first.answers(10'000));
  CHECK(job.answers(10'000));
  CHECK(group.freeze().ok());
  CHECK(first.answers(10'000));
  CHECK_FALSE(job.answers(100));
  CHECK(group.thaw().ok());
  CHECK(job.answers(10'000));
  CHECK(group.freeze().ok());
  CHECK(group.kill().ok());
  CHECK(signal_of(first.pid()) == SIGKILL);
  CHECK(signal_of(job.pid()) == SIGKILL);
  CHECK(group.remove().ok());
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
      test::sleep_for_ever();
    }
    const timespec pause{.tv_sec = 0, .tv_nsec = 50'000'000};
    ::nanosleep(&pause, nullptr);
    CHECK(group.kill().ok());
    CHECK(group.remove().ok());
    ::waitpid(pid, nullptr, 0);
  }
  CHECK(groups_there().empty());
}

namespace {

/// Makes and removes groups; 0, or which step failed.
int make_and_remove() {
  for (int round = 0; round < 40; ++round) {
    const auto layout = probe_cgroups();
    if (!layout.ok()) return 1;
    reap_stale_cgroups(layout.value());
    CgroupRequest wanted;
    wanted.id = cgroup_id().value();
    wanted.memory = kMemory;
    wanted.pids = 10;
    auto group = Cgroup::create(layout.value(), wanted);
    if (!group.ok()) {
      (void)!::write(2, group.error().message().data(), group.error().message().size());
      return 2;
    }
    if (!group.value().remove().ok()) return 3;
  }
  return 0;
}

}  // namespace

TEST_CASE(
    "cgroup: processes that make and remove groups at the same time do not disturb each other") {
  SKIP_UNLESS("cgroup-memory");
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(make_and_remove());
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

namespace {

/// Frozen groups whose supervisor was killed: the directory of one of them; empty on failure.
std::string groups_of_the_dead(const CgroupLayout& layout) {
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
    auto group = Cgroup::create(layout, wanted);
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
  return layout.pids.dir + "/sbx-" + std::string(buffer, static_cast<std::size_t>(size));
}

bool is_there(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

}  // namespace

TEST_CASE("cgroup: the groups of a killed supervisor are reaped, those of a living one stay") {
  SKIP_UNLESS("cgroup-memory");
  Cgroup living = create(request(kMemory, 10));
  const CgroupLayout layout = host_layout();
  // Any other sbx on this host reaps as well, and may be faster.
  constexpr int kTries = 20;
  bool was_ours = false;
  bool is_clean = false;
  for (int i = 0; i < kTries && !(was_ours && is_clean); ++i) {
    const std::string dead = groups_of_the_dead(layout);
    const bool is_left_to_us = is_there(dead);
    const std::size_t reaped = reap_stale_cgroups(layout);
    CHECK_FALSE(is_there(dead));
    was_ours = was_ours || (is_left_to_us && reaped >= 1);
    is_clean = is_clean || reap_stale_cgroups(layout) == 0;
  }
  CHECK(was_ours);
  CHECK(is_clean);
  CHECK_FALSE(groups_there().empty());
  CHECK(living.remove().ok());
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
