// keep test: which runs of a series are let go.
#include "core/run/keep.h"

#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/text.h"

namespace sbx::run {

namespace {

using Ids = std::vector<std::string>;

RunRecord finished(const std::string& id, int exit_code = 0) {
  RunRecord record;
  record.id = id;
  record.series = "lock:a";
  record.state = RunState::kFinished;
  record.cause = "exited";
  record.exit_code = exit_code;
  record.process.boot = "an earlier one";
  return record;
}

RunRecord with_files(const std::string& id, int exit_code = 0) {
  RunRecord record = finished(id, exit_code);
  record.out.emplace();
  record.out->kind = OutPlace::Kind::kDirectory;
  record.out->path = "/out/" + id;
  return record;
}

RunRecord skipped(const std::string& id) {
  RunRecord record = finished(id);
  record.state = RunState::kSkipped;
  record.cause = "skipped";
  return record;
}

}  // namespace

TEST_CASE("keep: the newest N records and places stay, older ones go") {
  const std::vector<RunRecord> all{
      with_files("e"), with_files("d"), with_files("c"), with_files("b"), with_files("a")};
  const KeepPlan plan = plan_keep(all, "lock:a", 3);
  CHECK(plan.records == Ids{"b", "a"});
  CHECK(plan.places == Ids{"b", "a"});
  CHECK(plan_keep(all, "lock:a", 5).records.empty());
}

TEST_CASE("keep: other series are left alone and not counted") {
  std::vector<RunRecord> all{with_files("c"), with_files("b"), with_files("a")};
  all[0].series = "lock:b";
  all[1].series = "";
  CHECK(plan_keep(all, "lock:a", 1).records.empty());
}

TEST_CASE("keep: runs without files do not push out files") {
  const std::vector<RunRecord> all{
      finished("e", 1), finished("d", 1), finished("c", 1), with_files("b"), with_files("a")};
  const KeepPlan plan = plan_keep(all, "lock:a", 2);
  CHECK(plan.places.empty());
  CHECK(plan.records == Ids{"c"});  // those of the files that stay are needed to know them again
}

TEST_CASE("keep: the newest good files survive any number of bad ones") {
  const std::vector<RunRecord> all{
      with_files("d", 1), with_files("c", 1), with_files("b"), with_files("a")};
  const KeepPlan plan = plan_keep(all, "lock:a", 2);
  CHECK(plan.places == Ids{"a"});
  CHECK(plan.records == Ids{"a"});
}

TEST_CASE("keep: what goes on is neither counted nor removed; a crashed run is a run") {
  std::vector<RunRecord> all{finished("d"), finished("c"), finished("b"), finished("a")};
  all[0].state = RunState::kRunning;
  all[0].process = confine::identity_of(::getpid()).value();
  all[1].state = RunState::kRunning;  // of an earlier boot
  CHECK(plan_keep(all, "lock:a", 1).records == Ids{"b", "a"});
}

TEST_CASE("keep: skipped starts are counted by themselves") {
  const std::vector<RunRecord> all{
      skipped("f"), skipped("e"), skipped("d"), finished("c"), finished("b"), finished("a")};
  CHECK(plan_keep(all, "lock:a", 2).records == Ids{"d", "a"});
}

TEST_CASE("keep: a place that a later run took over belongs to the later run") {
  std::vector<RunRecord> all{with_files("c"), with_files("b"), with_files("a")};
  all[2].out->path = all[0].out->path;
  const KeepPlan plan = plan_keep(all, "lock:a", 2);
  CHECK(plan.places.empty());
  CHECK(plan.records == Ids{"a"});
}

TEST_CASE("keep: directories that were there before are never removed") {
  std::vector<RunRecord> all{with_files("b"), with_files("a")};
  all[1].out->kind = OutPlace::Kind::kShared;
  const KeepPlan plan = plan_keep(all, "lock:a", 1);
  CHECK(plan.places.empty());
  CHECK(plan.records == Ids{"a"});
}

}  // namespace sbx::run
