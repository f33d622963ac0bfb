#include "core/confine/disk_plan.h"

#include <optional>
#include <string>

#include <doctest/doctest.h>

namespace sbx::confine {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr Bytes kRam{8192 * kMiB};

DiskWishes wishes(std::optional<std::uint64_t> disk_mib, std::optional<std::uint64_t> memory_mib) {
  DiskWishes out;
  if (disk_mib.has_value()) out.disk = {Bytes{*disk_mib * kMiB}, true};
  if (memory_mib.has_value()) out.memory = Bytes{*memory_mib * kMiB};
  out.memory_total = kRam;
  out.no_images_cause = "only root can";
  out.no_images_fix = "be root";
  return out;
}

}  // namespace

TEST_CASE("disk_plan: without a limit, files leave room for processes under the memory limit") {
  for (const std::uint64_t memory : {4UL, 64UL, 512UL, 4096UL}) {
    const auto plan = plan_disk(wishes({}, memory));
    REQUIRE(plan.ok());
    const DiskPlan& disk = plan.value();
    CHECK(disk.place == DiskPlace::kTmpfs);
    CHECK(disk.size.v >= memory * kMiB / 2);
    CHECK(disk.size.v + disk.inodes * 1024 < memory * kMiB);
    REQUIRE(disk.expected.size() == 2);
    CHECK(disk.expected[0].limit == "disk");
    CHECK(disk.expected[0].value == std::to_string(disk.size.v));
    CHECK(disk.expected[1].limit == "inodes");
    CHECK(disk.warnings.empty());
  }
}

TEST_CASE("disk_plan: no limits at all give a tmpfs that the host can bear") {
  CHECK(plan_disk(wishes({}, {})).value().size == Bytes{1024 * kMiB});
  DiskWishes small = wishes({}, {});
  small.memory_total = Bytes{512 * kMiB};
  CHECK(plan_disk(small).value().size.v < 256 * kMiB);
}

TEST_CASE("disk_plan: what fits under the memory limit is a tmpfs, what does not is an image") {
  struct Row {
    std::uint64_t disk;
    std::optional<std::uint64_t> memory;
    DiskPlace place;
  };
  for (const Row& row : {Row{16, 512, DiskPlace::kTmpfs},
                         Row{440, 512, DiskPlace::kTmpfs},
                         Row{500, 512, DiskPlace::kImage},
                         Row{512, 512, DiskPlace::kImage},
                         Row{2048, 512, DiskPlace::kImage},
                         Row{2048, {}, DiskPlace::kTmpfs},
                         Row{6000, {}, DiskPlace::kImage},
                         Row{20000, 16384, DiskPlace::kImage}}) {
    DiskWishes wish = wishes(row.disk, row.memory);
    wish.has_images = true;
    const auto plan = plan_disk(wish);
    REQUIRE(plan.ok());
    CAPTURE(row.disk);
    CHECK(plan.value().place == row.place);
    CHECK(plan.value().size == Bytes{row.disk * kMiB});
    CHECK_FALSE(plan.value().expected[0].approximate);
  }
}

TEST_CASE(
    "disk_plan: an explicit disk that nothing can hold is refused, with best effort lowered") {
  DiskWishes wish = wishes(2048, 512);
  const auto refused = plan_disk(wish);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code() == Errc::kUnsupported);
  CHECK(refused.error().message().find("limits.disk 2G does not fit") != std::string::npos);
  CHECK(refused.error().message().find("only root can") != std::string::npos);
  CHECK(refused.error().hint().find("be root") == 0);
  wish.best_effort = true;
  const auto plan = plan_disk(wish);
  REQUIRE(plan.ok());
  CHECK(plan.value().size.v < 512 * kMiB);
  CHECK(plan.value().expected[0].approximate);
  CHECK(plan.value().warnings.size() == 1);
}

TEST_CASE("disk_plan: inodes cost memory, and more than it holds are not promised") {
  DiskWishes wish = wishes({}, 64);
  wish.inodes = {100, true};
  CHECK(plan_disk(wish).value().inodes == 100);
  wish.inodes = {1'000'000, true};
  CHECK_FALSE(plan_disk(wish).ok());
  wish.inodes = {UINT64_MAX, true};
  CHECK_FALSE(plan_disk(wish).ok());
  wish.has_images = true;
  CHECK(plan_disk(wish).value().place == DiskPlace::kImage);
}

}  // namespace sbx::confine
