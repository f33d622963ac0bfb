#include "core/confine/cgroup_layout.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/fs.h"

namespace sbx::confine {
namespace {

/// A directory that stands for "/" of another host.
class FakeHost {
 public:
  FakeHost() : dir_(fs::TempDir::create("/tmp", "sbx-unit-cgroup-")) { REQUIRE(dir_.ok()); }

  std::string path(const std::string& inside) const { return dir_.value().path() + inside; }
  void dir(const std::string& inside) const {
    const Status made = fs::mkdirs(path(inside), 0755);
    REQUIRE(made.ok());
  }
  void file(const std::string& inside, const std::string& content) const {
    const std::size_t slash = inside.rfind('/');
    dir(inside.substr(0, slash));
    const auto at = fs::open_dir(path(inside.substr(0, slash)));
    REQUIRE(at.ok());
    REQUIRE(fs::write_atomic(at.value().get(), inside.substr(slash + 1), content, 0644).ok());
  }
  /// A v2 group as it belongs to its user.
  void group(const std::string& inside, const std::string& controllers) const {
    file(inside + "/cgroup.controllers", controllers + "\n");
    file(inside + "/cgroup.procs", "");
    file(inside + "/cgroup.subtree_control", controllers + "\n");
  }
  CgroupLayout find(std::string mountinfo, std::string self, bool is_root) const {
    return find_cgroup_places({.mountinfo = std::move(mountinfo),
                               .self_cgroup = std::move(self),
                               .root = dir_.value().path(),
                               .is_root = is_root,
                               .uid = 1000,
                               .shell = 42});
  }

 private:
  Result<fs::TempDir> dir_;
};

constexpr const char* kV2Mount = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kHybridMounts =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "37 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"
    "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

}  // namespace

TEST_CASE("cgroup_layout: root on v2 gets \"sbx\" below the mount") {
  const FakeHost host;
  host.group("/sys/fs/cgroup", "cpuset cpu io memory pids");
  const CgroupLayout layout = host.find(kV2Mount, "0::/user.slice/x.scope\n", true);
  for (const ControllerPlace* place :
       {&layout.memory, &layout.pids, &layout.cpu, &layout.accounting, &layout.freezer}) {
    CHECK(place->version == CgroupVersion::kV2);
    CHECK(place->dir == host.path("/sys/fs/cgroup/sbx"));
  }
}

TEST_CASE("cgroup_layout: a user on v2 gets the topmost group that is delegated") {
  const FakeHost host;
  const std::string user = "/user.slice/user-1000.slice/user@1000.service";
  host.file("/sys/fs/cgroup/cgroup.controllers", "cpu memory pids");
  host.group("/sys/fs/cgroup" + user, "memory pids");
  host.group("/sys/fs/cgroup" + user + "/app.slice", "memory pids");
  host.group("/sys/fs/cgroup" + user + "/app.slice/run-1.scope", "");
  const CgroupLayout layout = host.find(kV2Mount, "0::" + user + "/app.slice/run-1.scope\n", false);
  CHECK(layout.memory.dir == host.path("/sys/fs/cgroup" + user + "/sbx"));
  CHECK(layout.pids.usable());
  CHECK_FALSE(layout.cpu.usable());
  CHECK(layout.cpu.cause.find("the cpu controller is not delegated to") != std::string::npos);
  CHECK(layout.cpu.fix.find("Delegate=cpu memory pids") != std::string::npos);
}

TEST_CASE("cgroup_layout: a user's plain login on v2 has none, and the fix is said") {
  const FakeHost host;
  host.file("/sys/fs/cgroup/cgroup.controllers", "cpu memory pids");
  host.dir("/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope");
  const CgroupLayout layout =
      host.find(kV2Mount, "0::/user.slice/user-1000.slice/session-3.scope\n", false);
  CHECK_FALSE(layout.memory.usable());
  CHECK(layout.memory.cause == "no cgroup is delegated to this user here");
  CHECK(layout.memory.fix.find("systemd-run --user --scope") != std::string::npos);
  CHECK(layout.to_text().find("cgroup memory: none: ") != std::string::npos);
}

TEST_CASE("cgroup_layout: processes in a v2 group of ours are in the way of its controllers") {
  const FakeHost host;
  host.file("/sys/fs/cgroup/cgroup.controllers", "memory pids\n");
  host.file("/sys/fs/cgroup/cgroup.subtree_control", "pids\n");
  host.file("/sys/fs/cgroup/cgroup.type", "domain\n");  // not the root of the real hierarchy
  host.file("/sys/fs/cgroup/cgroup.procs", "1\n");
  const CgroupLayout layout = host.find(kV2Mount, "0::/\n", true);
  CHECK(layout.pids.usable());
  CHECK_FALSE(layout.memory.usable());
  CHECK(layout.memory.cause.find("has processes of its own") != std::string::npos);
}

TEST_CASE("cgroup_layout: a hybrid uses each v1 hierarchy, and the same one for cpu and cpuacct") {
  const FakeHost host;
  for (const char* name : {"memory", "cpu,cpuacct", "freezer", "pids"}) {
    host.dir(std::string("/sys/fs/cgroup/") + name);
  }
  host.group("/sys/fs/cgroup/unified", "hugetlb");
  const CgroupLayout layout = host.find(kHybridMounts, "4:memory:/a\n8:pids:/\n0::/\n", true);
  CHECK(layout.memory.version == CgroupVersion::kV1);
  CHECK(layout.memory.dir == host.path("/sys/fs/cgroup/memory"));
  CHECK(layout.pids.dir == host.path("/sys/fs/cgroup/pids"));
  CHECK(layout.cpu.dir == layout.accounting.dir);
  CHECK(layout.freezer.version == CgroupVersion::kV1);
}

TEST_CASE("cgroup_layout: a user on v1 has a group only where it was given one") {
  const FakeHost host;
  host.dir("/sys/fs/cgroup/memory/mine");
  const CgroupLayout layout =
      host.find(kHybridMounts, "4:memory:/mine\n8:pids:/theirs\n0::/\n", false);
  CHECK(layout.memory.dir == host.path("/sys/fs/cgroup/memory/mine"));
  CHECK_FALSE(layout.pids.usable());
  CHECK(layout.pids.cause ==
        "the cgroup v1 group /sys/fs/cgroup/pids/theirs (pids) belongs to root");
  CHECK(layout.pids.fix ==
        "as root: d=/sys/fs/cgroup/pids/user-1000; mkdir -p $d; chown -R 1000 $d; "
        "echo 42 > $d/cgroup.procs; or run sbx as root");
}

TEST_CASE("cgroup_layout: a mount that shows part of a hierarchy is subtracted from our path") {
  const FakeHost host;
  host.dir("/cg/inner");
  const std::string mount = "35 31 0:32 /docker/ab /cg rw - cgroup cgroup rw,memory\n";
  CHECK(host.find(mount, "4:memory:/docker/ab/inner\n", false).memory.dir ==
        host.path("/cg/inner"));
  CHECK(host.find(mount, "4:memory:/docker/ab\n", false).memory.dir == host.path("/cg"));
  CHECK_FALSE(host.find(mount, "4:memory:/docker/abc\n", false).memory.usable());
  CHECK_FALSE(host.find(mount, "4:memory:/\n", false).memory.usable());
  CHECK_FALSE(host.find(mount, "4:memory:/../x\n", false).memory.usable());
}

TEST_CASE("cgroup_layout: a host without cgroups says so") {
  const FakeHost host;
  const CgroupLayout layout = host.find("", "", true);
  CHECK(layout.memory.cause == "no cgroup file system is mounted");
  CHECK(layout.memory.fix == "as root: mount -t cgroup2 cgroup2 /sys/fs/cgroup");
  host.group("/sys/fs/cgroup", "cpu pids");
  CHECK(host.find(kV2Mount, "0::/\n", true).memory.fix.find("cgroup_disable=memory") !=
        std::string::npos);
}

TEST_CASE("cgroup_layout: the usual places are those that mountinfo tells of") {
  const auto layout = probe_cgroups();
  REQUIRE(layout.ok());
  CgroupView view;
  view.mountinfo = fs::read_file("/proc/self/mountinfo", Bytes{1U << 20U}).value();
  view.self_cgroup = fs::read_file("/proc/self/cgroup", Bytes{1U << 20U}).value();
  view.uid = ::geteuid();
  view.is_root = view.uid == 0;
  view.shell = ::getppid();
  const CgroupLayout read = find_cgroup_places(view);
  const auto same = [](const ControllerPlace& a, const ControllerPlace& b) {
    CHECK(a.dir == b.dir);
    CHECK(a.cause == b.cause);
    CHECK(a.fix == b.fix);
  };
  same(layout.value().memory, read.memory);
  same(layout.value().pids, read.pids);
  same(layout.value().cpu, read.cpu);
  same(layout.value().accounting, read.accounting);
  same(layout.value().freezer, read.freezer);
}

TEST_CASE("cgroup_layout: this host can be probed") {
  const auto layout = probe_cgroups();
  REQUIRE(layout.ok());
  const std::string text = layout.value().to_text();
  INFO(text);
  for (const ControllerPlace* place : {&layout.value().memory, &layout.value().pids}) {
    CHECK(place->usable() == place->cause.empty());
    CHECK(place->usable() != place->dir.empty());
    CHECK(place->cause.empty() == place->fix.empty());
  }
}

}  // namespace sbx::confine
