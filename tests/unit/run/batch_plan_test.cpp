// batch_plan_test: who may start beside whom, and what a batch comes to.
#include "core/run/batch_plan.h"

#include <cstdint>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

using namespace sbx;
using namespace sbx::run;
using supervise::Cause;

TEST_CASE("admission: the sum of the limits of running jobs stays within the budget") {
  Admission admission(Bytes{1000}, 10);
  CHECK(admission.may_start(Bytes{600}));
  admission.started(Bytes{600});
  CHECK(!admission.may_start(Bytes{401}));
  CHECK(admission.may_start(Bytes{400}));
  admission.started(Bytes{400});
  CHECK(!admission.may_start(Bytes{1}));
  CHECK(admission.may_start(Bytes{0}));
  admission.ended(Bytes{600});
  CHECK(admission.may_start(Bytes{600}));
  CHECK(!admission.may_start(Bytes{601}));
}

TEST_CASE("admission: no more jobs at a time than slots") {
  Admission admission(Bytes{UINT64_MAX}, 2);
  admission.started(Bytes{1});
  CHECK(admission.may_start(Bytes{1}));
  admission.started(Bytes{1});
  CHECK(!admission.may_start(Bytes{1}));
  admission.ended(Bytes{1});
  CHECK(admission.may_start(Bytes{1}));
}

TEST_CASE("admission: a job above the budget or without a limit runs alone") {
  for (const std::optional<Bytes> big : {std::optional(Bytes{1001}), std::optional<Bytes>()}) {
    Admission admission(Bytes{1000}, 10);
    CHECK(admission.must_be_alone(big));
    admission.started(Bytes{1});
    CHECK(!admission.may_start(big));
    admission.ended(Bytes{1});
    CHECK(admission.may_start(big));
    admission.started(big);
    CHECK(!admission.may_start(Bytes{0}));
    CHECK(!admission.may_start(big));
    admission.ended(big);
    CHECK(admission.may_start(Bytes{1000}));
  }
}

TEST_CASE("admission: limits that add up past 64 bits are not let in together") {
  Admission admission(Bytes{UINT64_MAX}, 10);
  admission.started(Bytes{UINT64_MAX});
  CHECK(!admission.may_start(Bytes{2}));
}

TEST_CASE("batch: the exit status says the worst that happened") {
  const auto status = [](std::vector<std::pair<Cause, int>> jobs, int signal = 0) {
    BatchEnd end;
    end.signal = signal;
    for (const auto& [cause, code] : jobs) {
      count(end.counts, cause, code);
    }
    return batch_exit_status(end);
  };
  CHECK(status({}) == 0);
  CHECK(status({{Cause::kExited, 0}}) == 0);
  CHECK(status({{Cause::kExited, 0}, {Cause::kExited, 3}}) == 1);
  CHECK(status({{Cause::kExited, 0}, {Cause::kSandboxError, 125}}) == 1);
  CHECK(status({{Cause::kSandboxError, 125}, {Cause::kSandboxError, 125}}) == 125);
  CHECK(status({{Cause::kUsage, 2}}) == 1);
  CHECK(status({{Cause::kExited, 0}, {Cause::kInterrupted, 130}}, 2) == 130);
  CHECK(status({{Cause::kExited, 3}}, 15) == 143);
}

TEST_CASE("batch: the memory budget keeps a tenth, within bounds") {
  constexpr std::uint64_t kMiB = 1U << 20U;
  CHECK(memory_budget(Bytes{65536 * kMiB}).v == 64512 * kMiB);
  CHECK(memory_budget(Bytes{5000 * kMiB}).v == 4500 * kMiB);
  CHECK(memory_budget(Bytes{512 * kMiB}).v == 384 * kMiB);
  CHECK(memory_budget(Bytes{100 * kMiB}).v == 0);
}
