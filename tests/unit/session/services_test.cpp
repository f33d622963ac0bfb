// Tests of what a session decides by itself: restarts of services, idle time, exec records.
#include "core/session/services.h"

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/session/exec_record.h"
#include "core/session/idle.h"

using namespace sbx;
using namespace sbx::session;

TEST_CASE("services: the pause before a restart doubles up to a minute") {
  CHECK(restart_pause(0).v == 1000);
  CHECK(restart_pause(1).v == 2000);
  CHECK(restart_pause(5).v == 32'000);
  CHECK(restart_pause(6).v == 60'000);
  CHECK(restart_pause(4'000'000'000).v == 60'000);
}

TEST_CASE("services: they restart as their rule says") {
  ExecRecord good;
  ExecRecord bad;
  bad.exit_status = 3;
  CHECK(!is_to_restart(profile::Restart::kNo, bad));
  CHECK(!is_to_restart(profile::Restart::kOnFailure, good));
  CHECK(is_to_restart(profile::Restart::kOnFailure, bad));
  CHECK(is_to_restart(profile::Restart::kAlways, good));
}

TEST_CASE("idle: nothing is due while something is in use, and then after the limit") {
  Loop loop;
  int looks = 0;
  bool is_in_use = true;
  int due = 0;
  IdleTimer timer(
      loop,
      Millis{5},
      [&] {
        if (++looks == 3) is_in_use = false;
        return is_in_use;
      },
      [&] {
        ++due;
        loop.stop();
      });
  REQUIRE(loop.run().ok());
  CHECK(due == 1);
  CHECK(looks == 3);
}

TEST_CASE("exec records: they are replaced in place, listed by number and pruned from the oldest") {
  auto dir = fs::TempDir::create("/tmp", "sbx-execs-");
  REQUIRE(dir.ok());
  for (std::uint32_t id = 1; id <= 12; ++id) {
    ExecRecord record;
    record.id = id;
    record.argv = {"a", "\xff"};
    record.state = id == 2 ? ExecState::kRunning : ExecState::kEnded;
    keep_exec_record(dir.value().fd(), record);
    record.cause = "exited";
    keep_exec_record(dir.value().fd(), record);
  }
  prune_exec_records(dir.value().fd(), 4, {2});
  const auto left = read_exec_records(dir.value().fd());
  REQUIRE(left.ok());
  std::vector<std::uint32_t> ids;
  for (const ExecRecord& each : left.value()) {
    ids.push_back(each.id);
    CHECK(each.cause == "exited");
    CHECK(each.argv == std::vector<std::string>{"a", "\\xff"});
  }
  CHECK(ids == std::vector<std::uint32_t>{2, 10, 11, 12});
}
