// memory_room_test: what is left, on hosts made of files.
#include "core/confine/memory_room.h"

#include <sys/stat.h>

#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"

using namespace sbx;

namespace {

class Host {
 public:
  Host() : dir_(std::move(fs::TempDir::create("/tmp", "sbx-room-")).value()) {
    put("/proc/meminfo", "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:    1000 kB\n");
  }
  void put(const std::string& path, const std::string& text) const {
    const std::string full = dir_.path() + path;
    REQUIRE(fs::mkdirs(full.substr(0, full.rfind('/')), 0755).ok());
    std::ofstream(full) << text;
  }
  std::uint64_t room() const {
    auto room = confine::memory_room(dir_.path());
    REQUIRE(room.ok());
    return room.value().v;
  }

 private:
  fs::TempDir dir_;
};

constexpr const char* kV2Mount = "30 1 0:26 / /cg rw - cgroup2 cgroup2 rw\n";
constexpr const char* kV1Mount = "31 1 0:27 / /cg1 rw - cgroup cgroup rw,memory\n";

}  // namespace

TEST_CASE("memory room: without groups it is what the host has available") {
  const Host host;
  CHECK(host.room() == 1000 * 1024);
}

TEST_CASE("memory room: the tightest v2 group above us counts, less what can be reclaimed") {
  const Host host;
  host.put("/proc/self/mountinfo", kV2Mount);
  host.put("/proc/self/cgroup", "0::/a/b\n");
  host.put("/cg/a/memory.max", "500000\n");
  host.put("/cg/a/memory.current", "300000\n");
  host.put("/cg/a/memory.stat", "anon 5\ninactive_file 100000\n");
  host.put("/cg/a/b/memory.max", "max\n");
  host.put("/cg/a/b/memory.current", "1\n");
  CHECK(host.room() == 300000);
  host.put("/cg/a/b/memory.max", "100\n");
  host.put("/cg/a/b/memory.current", "5000\n");
  CHECK(host.room() == 0);
}

TEST_CASE("memory room: a v1 group counts, its limit of no limit does not") {
  const Host host;
  host.put("/proc/self/mountinfo", std::string(kV2Mount) + kV1Mount);
  host.put("/proc/self/cgroup", "4:memory:/x\n0::/\n");
  host.put("/cg1/memory.limit_in_bytes", "9223372036854771712\n");
  host.put("/cg1/memory.usage_in_bytes", "123\n");
  CHECK(host.room() == 1000 * 1024);
  host.put("/cg1/x/memory.limit_in_bytes", "7000\n");
  host.put("/cg1/x/memory.usage_in_bytes", "2000\n");
  host.put("/cg1/x/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
  CHECK(host.room() == 5500);
}

TEST_CASE("memory room: a mount of a part of the hierarchy, and a group outside of it") {
  const Host host;
  host.put("/proc/self/mountinfo", "30 1 0:26 /pod /cg rw - cgroup2 cgroup2 rw\n");
  host.put("/proc/self/cgroup", "0::/pod/c\n");
  host.put("/cg/c/memory.max", "900\n");
  host.put("/cg/c/memory.current", "100\n");
  CHECK(host.room() == 800);
  host.put("/proc/self/cgroup", "0::/../other\n");
  CHECK(host.room() == 1000 * 1024);
}

TEST_CASE("memory room: a host that does not say is an error") {
  const Host host;
  host.put("/proc/meminfo", "MemTotal: 1 kB\n");
  CHECK(!confine::memory_room("/nowhere").ok());
}
