#include "core/confine/disk_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"

#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::confine {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;

/// Loop devices whose file was in `dir`.
int devices_of(const std::string& dir) {
  int count = 0;
  for (const std::string& name : test::names_in("/sys/block")) {
    const auto file = fs::read_file("/sys/block/" + name + "/loop/backing_file", Bytes{4096});
    if (file.ok() && file.value().find(dir) != std::string::npos) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("disk_image: who cannot mount one is told why and what to do") {
  const DiskImageAbility ability = probe_disk_images();
  CHECK(ability.is_able == ability.cause.empty());
  CHECK(ability.is_able == ability.fix.empty());
  if (::geteuid() != 0) CHECK_FALSE(ability.is_able);
}

TEST_CASE("disk_image: it has exactly the space and inodes asked for, and leaves nothing behind") {
  SKIP_UNLESS("root");
  SKIP_UNLESS("loop");
  auto dir = fs::TempDir::create("/var/tmp", "sbx-image-");
  REQUIRE(dir.ok());
  for (const std::uint64_t mib : {8UL, 300UL}) {
    auto mount = make_disk_image({dir.value().path(), Bytes{mib * kMiB}, 1000, 77});
    REQUIRE_MESSAGE(mount.ok(), (mount.ok() ? "" : mount.error().to_string()));
    struct statvfs info {};
    REQUIRE(::fstatvfs(mount.value().get(), &info) == 0);
    const std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
    CHECK(free <= mib * kMiB);
    CHECK(free >= mib * kMiB - 65536);  // a block or two of the surplus file's own tree
    CHECK(info.f_ffree == 1000);
    struct stat root {};
    REQUIRE(::fstat(mount.value().get(), &root) == 0);
    CHECK(root.st_uid == 77);
    CHECK(test::names_in(dir.value().path()).empty());
    CHECK(devices_of(dir.value().path()) == 1);
  }
  CHECK(devices_of(dir.value().path()) == 0);
}

TEST_CASE("disk_image: more than the state disk has left is refused at once") {
  SKIP_UNLESS("root");
  SKIP_UNLESS("loop");
  const auto mount = make_disk_image({"/var/tmp", Bytes{1UL << 42}, 1000, 0});
  REQUIRE_FALSE(mount.ok());
  CHECK(mount.error().sys_errno() == ENOSPC);
  CHECK(mount.error().hint().find("--disk") != std::string::npos);
}

}  // namespace sbx::confine
