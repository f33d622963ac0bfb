// Machine fence tests: what QEMU sees of the host, what holds it, and what is left of it.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/backend/vm/machine.h"
#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/cgroup.h"

#include "tests/support/leaks.h"
#include "tests/support/process.h"
#include "tests/support/skip.h"
#include "tests/unit/vm/guest.h"

using namespace sbx;
using test::Guest;
using test::guest_spec;
using test::started;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

/// A line of /proc/PID/status.
std::string status_of(int pid, const std::string& key) {
  const std::string all = test::slurp(text::cat("/proc/", pid, "/status"));
  const size_t at = all.find(key + ":\t");
  if (at == std::string::npos) return {};
  return all.substr(at + key.size() + 2, all.find('\n', at) - at - key.size() - 2);
}

std::vector<std::string> groups_of(const std::string& id) {
  const test::Outcome found =
      test::run({.argv = {"/usr/bin/find", "/sys/fs/cgroup", "-name", text::cat("*", id, "*")}});
  std::vector<std::string> out;
  for (const std::string_view line : text::split(found.out, '\n')) {
    if (!line.empty()) out.emplace_back(line);
  }
  return out;
}

bool ends_soon(int pid) {
  const double until = test::now() + 5 * test::slowness();
  while (test::now() < until) {
    if (!test::exists(text::cat("/proc/", pid))) return true;
    test::pause(0.01);
  }
  return false;
}

}  // namespace

TEST_CASE(
    "machine: QEMU sees a jail's tree: no homes, no state, nothing of the run but its files") {
  test::as_each_user([](const std::string& state) -> std::string {
    Guest guest(guest_spec(state));
    SBX_EXPECT(guest.problem() == "");
    const int pid = guest.machine().qemu_pid();
    SBX_EXPECT(pid > 0);
    SBX_EXPECT(started(guest) == "");
    const std::string root = text::cat("/proc/", pid, "/root");
    SBX_EXPECT(test::names_in(root + "/home") == std::vector<std::string>{"sbx"});
    SBX_EXPECT(test::names_in(root + "/home/sbx").empty());
    SBX_EXPECT((test::names_in(root + "/work") == std::vector<std::string>{"initramfs", "kernel"}));
    SBX_EXPECT(!test::exists(root + state));
    SBX_EXPECT(!test::exists(root + "/root"));
    SBX_EXPECT(!test::exists(root + "/var/lib"));
    SBX_EXPECT(!test::exists(root + "/etc/shadow"));
    SBX_EXPECT(!test::exists(root + "/dev/kvm"));
    for (const std::string path : {"/usr/x", "/etc/x", "/x", "/dev/x", "/work/kernel"}) {
      struct stat info {};
      const bool is_there = ::stat((root + path).c_str(), &info) == 0;
      SBX_EXPECT(is_there == (path == "/work/kernel"));
      SBX_EXPECT(::open((root + path).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0);
    }
    SBX_EXPECT(status_of(pid, "NoNewPrivs") == "1");
    SBX_EXPECT(status_of(pid, "Seccomp") == "2");
    SBX_EXPECT(status_of(pid, "CapEff") == "0000000000000000");
    if (::geteuid() == 0) {
      const std::string uid = status_of(pid, "Uid");
      SBX_EXPECT(!uid.starts_with("0\t"));
    }
    // No network, but a loop.
    SBX_EXPECT(test::slurp(text::cat("/proc/", pid, "/net/dev")).find("eth") == std::string::npos);
    return {};
  });
}

TEST_CASE("machine: the limit of QEMU's group is the guest's memory and the overhead") {
  SKIP_UNLESS("cgroup-memory");
  if (test::guest_files() == nullptr) return;
  const auto what = [](const std::string& state) -> std::string {
    vm::MachineSpec spec = guest_spec(state);
    spec.limits.is_explicit = true;
    spec.limits.cpu_millis = 1500;
    Guest guest(spec);
    SBX_EXPECT(started(guest) == "");
    const uint64_t wanted = spec.memory.v + vm::default_overhead(spec).v;
    const auto& limits = guest.machine().limits();
    const auto held = std::find_if(
        limits.begin(), limits.end(), [](const auto& limit) { return limit.limit == "memory"; });
    SBX_EXPECT(held != limits.end());
    SBX_EXPECT(!held->approximate);
    SBX_EXPECT(held->value == std::to_string(wanted));
    std::string read_back;
    for (const std::string& group : groups_of(spec.id)) {
      read_back += test::slurp(group + "/memory.limit_in_bytes");
      read_back += test::slurp(group + "/memory.max");
    }
    SBX_EXPECT(read_back == std::to_string(wanted) + "\n");
    const auto usage = guest.machine().usage();
    SBX_EXPECT_OK(usage);
    SBX_EXPECT(usage.value().memory.has_value());
    std::printf("memory after start: %lu MB of %lu MB\n",
                *usage.value().memory / 1'000'000,
                wanted / 1'000'000);
    SBX_EXPECT_OK(guest.machine().finish());
    SBX_EXPECT(groups_of(spec.id).empty());
    return {};
  };
  CHECK(test::as_user(test::self(), what) == "");
}

TEST_CASE("machine: killed, or dropped, it leaves no process, no group and no file") {
  if (test::guest_files() == nullptr) return;
  for (const test::Identity* who : test::machine_identities()) {
    CAPTURE(who->name);
    const test::LeakCheck leaks;
    CHECK(test::as_user(*who, [](const std::string& state) -> std::string {
            vm::MachineSpec spec = guest_spec(state);
            {
              Guest guest(spec);
              SBX_EXPECT(started(guest) == "");
              const int pid = guest.machine().qemu_pid();
              SBX_EXPECT_OK(guest.machine().kill());
              std::array<pollfd, 1> polled{{{guest.machine().exit_fd(), POLLIN, 0}}};
              const auto ready = sys::poll(polled, Millis{5000});
              SBX_EXPECT_OK(ready);
              SBX_EXPECT(ready.value() == 1);
              SBX_EXPECT_OK(guest.machine().finish());
              SBX_EXPECT(!test::exists(text::cat("/proc/", pid)));
              SBX_EXPECT(groups_of(spec.id).empty());
              SBX_EXPECT(!guest.machine().stop().ok());
            }
            int pid = -1;
            {
              Guest guest(spec);
              SBX_EXPECT(guest.problem() == "");
              pid = guest.machine().qemu_pid();
            }
            SBX_EXPECT(!test::exists(text::cat("/proc/", pid)));
            SBX_EXPECT(groups_of(spec.id).empty());
            // The speed of the processor is kept.
            SBX_EXPECT(test::names_in(state) == std::vector<std::string>{"tsc-khz"});
            return {};
          }) == "");
    CHECK(test::joined(leaks.left()) == "");
  }
}

TEST_CASE("machine: QEMU dies with its supervisor, even of SIGKILL") {
  test::as_each_user([](const std::string& state) -> std::string {
    auto pipe = sys::pipe();
    SBX_EXPECT_OK(pipe);
    const pid_t supervisor = ::fork();
    if (supervisor == 0) {
      Guest guest(guest_spec(state));
      const std::string pid =
          std::to_string(guest.problem().empty() ? guest.machine().qemu_pid() : -1);
      (void)sys::write_all(pipe.value().w.get(), pid + "\n").ok();
      for (;;) {
        ::pause();
      }
    }
    pipe.value().w.reset();
    char buffer[32] = {};
    SBX_EXPECT_OK(sys::read(pipe.value().r.get(), buffer, sizeof buffer - 1));
    const int pid = std::atoi(buffer);
    SBX_EXPECT(pid > 0);
    SBX_EXPECT(test::exists(text::cat("/proc/", pid)));
    SBX_EXPECT(::kill(supervisor, SIGKILL) == 0);
    int status = 0;
    SBX_EXPECT(::waitpid(supervisor, &status, 0) == supervisor);
    SBX_EXPECT(ends_soon(pid));
    return {};
  });
}

TEST_CASE("machine: a guest that writes to its serial port without end is bounded and seen") {
  test::as_each_user([](const std::string& state) -> std::string {
    Guest guest(guest_spec(state));
    SBX_EXPECT(started(guest) == "");
    SBX_EXPECT(guest.sh("(while :; do echo flood; done) >/dev/ttyS0 & echo begun") == "begun\n");
    test::pause(0.5);
    const std::string tail = guest.machine().serial_tail();
    SBX_EXPECT(tail.find("flood") != std::string::npos);
    SBX_EXPECT(tail.size() <= size_t{32} << 10);
    test::pause(0.5);  // nobody reads now
    SBX_EXPECT_OK(guest.machine().stop());
    SBX_EXPECT_OK(guest.machine().cont());
    SBX_EXPECT(guest.sh("echo alive") == "alive\n");
    return {};
  });
}

TEST_CASE("machine: disks in order, read-only where they are to be, whoever owns their files") {
  test::as_each_user([](const std::string& state) -> std::string {
    vm::MachineSpec spec = guest_spec(state);
    for (const std::string name : {"first", "second"}) {
      const auto file = sys::open(state + "/" + name, O_RDWR | O_CREAT, 0600);
      SBX_EXPECT_OK(file);
      SBX_EXPECT_OK(sys::write_all(file.value().get(), name + "\n"));
      SBX_EXPECT_OK(sys::ftruncate(file.value().get(), Bytes{4 * kMiB}));
      vm::Disk disk;
      disk.path = state + "/" + name;
      disk.is_read_only = name == "first";
      spec.disks.push_back(std::move(disk));
    }
    Guest guest(spec);
    SBX_EXPECT(started(guest) == "");
    SBX_EXPECT(guest.sh("head -n1 /dev/vda; head -n1 /dev/vdb") == "first\nsecond\n");
    SBX_EXPECT(guest.sh("blockdev --getro /dev/vda; blockdev --getro /dev/vdb") == "1\n0\n");
    SBX_EXPECT(guest.sh("echo written > /dev/vdb; sync; echo $?") == "0\n");
    SBX_EXPECT(guest.sh("echo written 2>/dev/null > /dev/vda && sync && echo yes; echo $?") !=
               "yes\n0\n");
    SBX_EXPECT(test::slurp(state + "/second").starts_with("written\n"));
    SBX_EXPECT(test::slurp(state + "/first").starts_with("first\n"));
    return {};
  });
}

TEST_CASE("machine: shares show a jail's tree and a directory, and nothing above them") {
  test::as_each_user([](const std::string& state) -> std::string {
    const std::string dir = state + "/shared";
    SBX_EXPECT(::mkdir(dir.c_str(), 0700) == 0);
    for (const std::string& path : {dir + "/seen", state + "/secret"}) {
      const auto file = sys::open(path, O_RDWR | O_CREAT, 0600);
      SBX_EXPECT_OK(file);
      SBX_EXPECT_OK(sys::write_all(file.value().get(), "content\n"));
    }
    SBX_EXPECT(::symlink("../secret", (dir + "/up").c_str()) == 0);
    SBX_EXPECT(::symlink((state + "/secret").c_str(), (dir + "/far").c_str()) == 0);
    vm::MachineSpec spec = guest_spec(state);
    using From = vm::Share::From;
    spec.shares = {{From::kTree, "/usr", "usr", true},
                   {From::kTree, "/etc", "etc", true},
                   {From::kHost, dir, "own", false}};
    Guest guest(spec);
    SBX_EXPECT(started(guest) == "");
    const auto mount = [&guest](const std::string& tag, const std::string& options) {
      return guest.sh(text::cat("mkdir /mnt/",
                                tag,
                                "; mount -t 9p -o trans=virtio,version=9p2000.L,",
                                "msize=262144,cache=loose,",
                                options,
                                " ",
                                tag,
                                " /mnt/",
                                tag));
    };
    SBX_EXPECT(mount("usr", "ro") == "");
    SBX_EXPECT(mount("etc", "rw") == "");  // refused by QEMU, not by the mount
    SBX_EXPECT(mount("own", "rw") == "");
    SBX_EXPECT(guest.sh("ls -d /mnt/usr/bin/env /mnt/usr/../.. && ls /mnt/usr/..") ==
               "/mnt/usr/../..\n/mnt/usr/bin/env\netc\nown\nusr\n");
    SBX_EXPECT(guest.sh("head -n1 /mnt/etc/passwd") == "root:x:0:0:root:/root:/usr/sbin/nologin\n");
    SBX_EXPECT(guest.sh("ls /mnt/etc/shadow 2>&1 | grep -c 'No such'") == "1\n");
    SBX_EXPECT(guest.sh("touch /mnt/etc/x 2>&1 | grep -c 'Read-only'") == "1\n");
    SBX_EXPECT(guest.sh("cat /mnt/own/seen") == "content\n");
    SBX_EXPECT(guest.sh("cat /mnt/own/up /mnt/own/far 2>&1 | grep -c 'No such'") == "2\n");
    SBX_EXPECT(guest.sh("echo new > /mnt/own/new; cat /mnt/own/new; stat -c %u /mnt/own/seen") ==
               "new\n1000\n");
    struct stat info {};
    SBX_EXPECT(::stat((dir + "/new").c_str(), &info) == 0);
    SBX_EXPECT(info.st_uid == ::geteuid());
    // It cannot be saved so, and says why.
    const auto file = sys::open(state + "/saved", O_RDWR | O_CREAT, 0600);
    SBX_EXPECT_OK(file);
    const Status saved =
        guest.machine().save(file.value().get(), vm::SaveKind::kAll, Millis{10'000});
    SBX_EXPECT(!saved.ok());
    SBX_EXPECT(saved.error().code() == Errc::kUnsupported);
    SBX_EXPECT_OK(guest.machine().cont());
    SBX_EXPECT(guest.sh("umount /mnt/usr /mnt/etc /mnt/own && echo away") == "away\n");
    SBX_EXPECT_OK(guest.machine().save(file.value().get(), vm::SaveKind::kAll, Millis{10'000}));
    return {};
  });
}

TEST_CASE("machine: with KVM QEMU says that it uses it, and without it the fix is named") {
  if (test::guest_files() == nullptr) return;
  for (const test::Identity* who : test::machine_identities()) {
    CAPTURE(who->name);
    CHECK(test::as_user(*who, [](const std::string& state) -> std::string {
            vm::MachineSpec spec = guest_spec(state);
            spec.accel = vm::Accel::kKvm;
            // Some nested hosts offer a processor whose registers QEMU then cannot set.
            spec.cpu = vm::CpuModel::kPlain;
            const Status able = vm::check_kvm();
            Guest guest(spec);
            if (!able.ok()) {
              SBX_EXPECT(guest.problem() == able.error().to_string());
              SBX_EXPECT(able.error().code() == Errc::kUnsupported);
              std::printf("kvm: %s\n", guest.problem().c_str());
              return {};
            }
            if (!guest.problem().empty()) return guest.problem();
            const auto is_used = guest.machine().is_using_kvm();
            SBX_EXPECT_OK(is_used);
            SBX_EXPECT(is_used.value());
            std::printf("kvm: enabled\n");
            SBX_EXPECT_OK(guest.machine().finish());
            SBX_EXPECT(test::names_in(state + "/overlays").size() <= 1);  // goes with the machine
            return {};
          }) == "");
  }
}
