#include "core/confine/limit_plan.h"

#include <doctest/doctest.h>

namespace sbx::confine {
namespace {

ControllerPlace place(CgroupVersion version) {
  return {.version = version, .dir = "/sys/fs/cgroup/x", .cause = {}, .fix = {}};
}

ControllerPlace nowhere() {
  return {.version = CgroupVersion::kNone, .dir = {}, .cause = "not delegated", .fix = "delegate"};
}

CgroupLayout layout_of(const ControllerPlace& all) {
  CgroupLayout layout;
  layout.memory = layout.pids = layout.cpu = layout.accounting = layout.freezer = all;
  return layout;
}

LimitWishes wishes(bool is_explicit) {
  LimitWishes out;
  out.memory = {Bytes{512U << 20U}, is_explicit};
  out.pids = {256, is_explicit};
  out.cpu_millis = {1500, is_explicit};
  return out;
}

}  // namespace

TEST_CASE("limit_plan: with controllers everything goes to the cgroup, without a warning") {
  for (const CgroupVersion version : {CgroupVersion::kV1, CgroupVersion::kV2}) {
    const auto plan = plan_limits(wishes(true), layout_of(place(version)));
    REQUIRE(plan.ok());
    CHECK(plan.value().cgroup.memory == Bytes{512U << 20U});
    CHECK(plan.value().cgroup.pids == 256);
    CHECK(plan.value().cgroup.cpu_millis == 1500);
    CHECK_FALSE(plan.value().rlimits.data.has_value());
    CHECK_FALSE(plan.value().rlimits.processes.has_value());
    CHECK(plan.value().warnings.empty());
    REQUIRE(plan.value().expected.size() == 4);
    CHECK(plan.value().expected[0].mechanism == (version == CgroupVersion::kV1
                                                     ? "cgroup v1 memory.limit_in_bytes"
                                                     : "cgroup v2 memory.max"));
    CHECK(plan.value().expected[3].limit == "open_files");
  }
}

TEST_CASE("limit_plan: an explicit limit that nothing can hold is refused with the fix") {
  LimitWishes memory;
  memory.memory = {Bytes{1U << 20U}, true};
  LimitWishes cpu;
  cpu.cpu_millis = {1000, true};
  for (const LimitWishes& wish : {memory, cpu}) {
    const auto plan = plan_limits(wish, layout_of(nowhere()));
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().code() == Errc::kUnsupported);
    CHECK(plan.error().message().find("cannot be enforced here: not delegated") !=
          std::string::npos);
    CHECK(plan.error().hint().find("delegate") == 0);
    LimitWishes best_effort = wish;
    best_effort.best_effort = true;
    CHECK(plan_limits(best_effort, layout_of(nowhere())).ok());
  }
}

TEST_CASE("limit_plan: shipped defaults are approximated with one warning") {
  const auto plan = plan_limits(wishes(false), layout_of(nowhere()));
  REQUIRE(plan.ok());
  CHECK_FALSE(plan.value().cgroup.memory.has_value());
  CHECK(plan.value().rlimits.data == Bytes{512U << 20U});
  CHECK(plan.value().rlimits.processes == 257);  // the agent counts as well
  REQUIRE(plan.value().warnings.size() == 1);
  CHECK(plan.value().warnings[0].find("not delegated (delegate)") != std::string::npos);
  CHECK(plan.value().warnings[0].find("no limit on CPU use") != std::string::npos);
  REQUIRE(plan.value().expected.size() == 3);
  CHECK(plan.value().expected[0].approximate);
  CHECK_FALSE(plan.value().expected[1].approximate);
  CHECK(plan.value().expected[1].value == "256");
}

TEST_CASE("limit_plan: an explicit pids limit holds without a cgroup where the kernel counts so") {
  LimitWishes wish;
  wish.pids = {10, true};
  wish.own_processes = 2;
  const auto plan = plan_limits(wish, layout_of(nowhere()));
  REQUIRE(plan.ok());
  CHECK(plan.value().rlimits.processes == 12);
  CHECK(plan.value().warnings.empty());
  wish.nproc_is_per_userns = false;
  CHECK_FALSE(plan_limits(wish, layout_of(nowhere())).ok());
}

TEST_CASE("limit_plan: swap that is not counted makes a hole in the memory limit, which is said") {
  CgroupLayout layout = layout_of(place(CgroupVersion::kV1));
  layout.swap = SwapState::kUncounted;
  CHECK(plan_limits(wishes(true), layout).error().hint().find("swapaccount=1") !=
        std::string::npos);
  const auto plan = plan_limits(wishes(false), layout);
  REQUIRE(plan.ok());
  CHECK(plan.value().cgroup.memory.has_value());
  CHECK(plan.value().expected[0].approximate);
  CHECK(plan.value().warnings.size() == 1);
}

TEST_CASE("limit_plan: each controller is judged for itself") {
  CgroupLayout layout = layout_of(place(CgroupVersion::kV2));
  layout.cpu = nowhere();
  LimitWishes wish = wishes(false);
  wish.memory.is_explicit = true;
  const auto plan = plan_limits(wish, layout);
  REQUIRE(plan.ok());
  CHECK(plan.value().cgroup.memory.has_value());
  CHECK_FALSE(plan.value().cgroup.cpu_millis.has_value());
  CHECK(plan.value().warnings.size() == 1);
}

TEST_CASE("limit_plan: CPU time is counted for the whole tree where a cgroup counts it") {
  LimitWishes wish;
  wish.cpu_time = {Millis{1500}, true};
  const auto plan = plan_limits(wish, layout_of(place(CgroupVersion::kV1)));
  REQUIRE(plan.ok());
  CHECK(plan.value().cgroup.accounting);
  CHECK(plan.value().cpu_time == Millis{1500});
  CHECK_FALSE(plan.value().rlimits.cpu_seconds.has_value());
  CHECK(plan.value().expected[0].value == "1500ms");
  CHECK_FALSE(plan.value().expected[0].approximate);
}

TEST_CASE("limit_plan: CPU time of each process apart is no CPU time limit that was asked for") {
  LimitWishes wish;
  wish.cpu_time = {Millis{1500}, true};
  const auto refused = plan_limits(wish, layout_of(nowhere()));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().hint().find("limits.best_effort") != std::string::npos);
  wish.best_effort = true;
  const auto plan = plan_limits(wish, layout_of(nowhere()));
  REQUIRE(plan.ok());
  CHECK_FALSE(plan.value().cpu_time.has_value());
  CHECK(plan.value().rlimits.cpu_seconds == 2);
  CHECK(plan.value().expected[0].value == "2000ms");
  CHECK(plan.value().expected[0].approximate);
  CHECK(plan.value().warnings.size() == 1);
}

TEST_CASE("limit_plan: no wishes, only the open files") {
  const auto plan = plan_limits(LimitWishes{}, layout_of(nowhere()));
  REQUIRE(plan.ok());
  CHECK(plan.value().expected.size() == 1);
  CHECK(plan.value().expected[0].value == "1024");
}

}  // namespace sbx::confine
