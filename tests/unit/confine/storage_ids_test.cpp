// Storage ids: whose ids images have on disk, and being root of them.
#include "core/confine/storage_ids.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include <doctest/doctest.h>

#include "core/base/fs.h"
#include "core/base/sys.h"

#include "tests/support/skip.h"

using namespace sbx;
using confine::IdMap;
using confine::StorageIds;

namespace {

std::uint64_t sum(const std::vector<IdMap>& maps) {
  std::uint64_t all = 0;
  for (const IdMap& map : maps) {
    CHECK(map.inside == all);  // no gap
    all += map.count;
  }
  return all;
}

}  // namespace

TEST_CASE("storage ids: a user is 0 itself, its ranges are the rest") {
  const auto ids = confine::plan_subids(
      "eve:1000:10\nann:100000:65536\n", "ann:200000:65536\n", "ann", 1000, 100);
  REQUIRE(ids.ok());
  CHECK(ids.value().kind == StorageIds::Kind::kSubids);
  REQUIRE(ids.value().uids.size() == 2);
  CHECK(ids.value().uids[0].outside == 1000);
  CHECK(ids.value().uids[1].inside == 1);
  CHECK(ids.value().uids[1].outside == 100000);
  CHECK(ids.value().gids[0].outside == 100);
  CHECK(ids.value().gids[1].outside == 200000);
  CHECK(sum(ids.value().uids) == 65536);
  CHECK(sum(ids.value().gids) == 65536);
}

TEST_CASE("storage ids: several lines, and lines with the user's number, are put together") {
  const auto ids = confine::plan_subids(
      "ann:100000:30000\n1000:300000:90000\n", "1000:5000000:65535\n", "ann", 1000, 100);
  REQUIRE(ids.ok());
  REQUIRE(ids.value().uids.size() == 3);
  CHECK(ids.value().uids[2].inside == 30001);
  CHECK(ids.value().uids[2].count == 35535);
  CHECK(sum(ids.value().uids) == 65536);
}

TEST_CASE("storage ids: without a range, or with too short a one, the fix is named") {
  struct Case {
    const char* subuid;
    const char* subgid;
    const char* file;
  };
  for (const Case& each : {Case{"", "ann:1:65536", "/etc/subuid"},
                           Case{"ann:1:65536", "", "/etc/subgid"},
                           Case{"ann:100000:65534", "ann:100000:65535", "/etc/subuid"},
                           Case{"annabel:100000:65536", "ann:100000:65536", "/etc/subuid"},
                           Case{"ann:4294967290:65536", "ann:100000:65536", "/etc/subuid"}}) {
    CAPTURE(each.subuid);
    const auto ids = confine::plan_subids(each.subuid, each.subgid, "ann", 1000, 100);
    REQUIRE(!ids.ok());
    CHECK(ids.error().code() == Errc::kUnsupported);
    CHECK(ids.error().message().find(each.file) != std::string::npos);
    CHECK(ids.error().hint().find("usermod --add-subuids") != std::string::npos);
  }
}

TEST_CASE("storage ids: root of them owns files of ids that are not ours outside") {
  SKIP_UNLESS("root");
  const auto ids = confine::storage_ids();
  REQUIRE(ids.ok());
  const auto dir = fs::TempDir::create("/tmp", "sbx-storage-");
  REQUIRE(dir.ok());
  REQUIRE(::chmod(dir.value().path().c_str(), 0777) == 0);
  const std::string file = dir.value().path() + "/file";
  const Status made = confine::run_as_storage_root(ids.value(), "make a file", [&] {
    if (::geteuid() != 0 || ::getegid() != 0) return 2;
    const auto fd = sys::open(file, O_WRONLY | O_CREAT, 0600);
    if (!fd.ok()) return 3;
    return ::fchown(fd.value().get(), 33, 44) == 0 ? 0 : 4;
  });
  REQUIRE(made.ok());
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  const auto outside = [](const std::vector<IdMap>& maps, std::uint32_t inside) {
    for (const IdMap& map : maps) {
      if (inside >= map.inside && inside - map.inside < map.count)
        return map.outside + inside - map.inside;
    }
    return UINT32_MAX;
  };
  CHECK(info.st_uid == outside(ids.value().uids, 33));
  CHECK(info.st_gid == outside(ids.value().gids, 44));
  CHECK(info.st_uid != 33);
}

TEST_CASE("storage ids: what goes wrong as their root is no success") {
  SKIP_UNLESS("root");
  const auto ids = confine::storage_ids();
  REQUIRE(ids.ok());
  CHECK(!confine::run_as_storage_root(ids.value(), "fail", [] { return 1; }).ok());
  const Status killed = confine::run_as_storage_root(ids.value(), "die", [] { return ::raise(9); });
  REQUIRE(!killed.ok());
  CHECK(killed.error().message() == "die: ended by signal 9");
}
