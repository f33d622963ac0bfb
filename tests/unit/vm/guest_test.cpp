// Tests of a guest's init, in emulated machines with Debian's 6.1 kernel.
#include <poll.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/backend/vm/control.h"
#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/text.h"

#include "tests/support/process.h"
#include "tests/unit/vm/inside.h"
#include "tests/unit/vm/plain_machine.h"

using namespace sbx;
using namespace sbx::vm;
using namespace sbx::test;

namespace {

std::string value_of(const control::Launched& launched, const std::string& limit) {
  for (const confine::InForce& each : launched.limits) {
    if (each.limit == limit) return each.value + (each.approximate ? " approximate" : "");
  }
  return "";
}

void must_run(const std::vector<std::string>& argv) {
  const Outcome o = test::run({.argv = argv});
  INFO(o.show());
  REQUIRE(o.code == 0);
}

std::string empty_disk(const Scratch& dir) {
  const std::string path = dir.path() + "/state";
  must_run({"/usr/sbin/mke2fs", "-q", "-F", "-t", "ext4", path, "128M"});
  return path;
}

/// A small system of busybox, as erofs.
std::string busybox_image(const Scratch& dir) {
  namespace stdfs = std::filesystem;
  const std::string tree = dir.path() + "/tree";
  for (const char* name : {"bin", "etc", "data", "home/u"}) {
    stdfs::create_directories(text::cat(tree, "/", name));
  }
  stdfs::copy_file("/usr/bin/busybox", tree + "/bin/busybox");
  for (const char* name : {"sh", "cat", "id", "ls", "chown", "rm", "touch", "stat"}) {
    stdfs::create_symlink("busybox", text::cat(tree, "/bin/", name));
  }
  std::ofstream(tree + "/etc/passwd") << "root:x:0:0::/:/bin/sh\nu:x:1234:1234::/home/u:/bin/sh\n";
  std::ofstream(tree + "/hello") << "from the image\n";
  must_run({"/usr/bin/chown", "1234:1234", tree + "/home/u"});
  const std::string path = dir.path() + "/image";
  must_run({"/usr/bin/mkfs.erofs", "-zlz4", path, tree});
  return path;
}

control::Launch image_launch(std::uint32_t user) {
  control::Launch wanted = launch_of(profile_of("base"));
  wanted.image.emplace();
  wanted.image->user = {user, user};
  wanted.image->volumes = {"/data/volume"};
  return wanted;
}

/// The answer to bytes that are no request.
ipc::Fields answer_to_rubbish(PlainMachine& machine, const std::string& bytes) {
  const int fd = machine.control().fd();
  REQUIRE(sys::write_all(fd, bytes).ok());
  std::string got;
  while (got.size() < ipc::kFrameLengthSize ||
         got.size() < ipc::kFrameLengthSize + ipc::frame_length(got)) {
    pollfd entry{fd, POLLIN, 0};
    REQUIRE(sys::poll({&entry, 1}, Millis{10'000}).value() == 1);
    std::string piece(1, '\0');
    REQUIRE(sys::read(fd, piece.data(), 1).value() == 1);
    got += piece;
  }
  auto fields = ipc::decode_frame(std::string_view(got).substr(ipc::kFrameLengthSize));
  REQUIRE(fields.ok());
  return std::move(fields).value();
}

}  // namespace

TEST_CASE("guest: programs run in it with the host's tree") {
  if (!have_machine()) return;
  PlainMachine machine(host_machine());
  const control::Hello said = hello(machine);
  CHECK(said.version == control::kVersion);
  ask(machine, control::encode(some_wake('a')));
  ask(machine, control::encode(host_root()));
  profile::Profile profile = profile_of("python");
  profile.limits.memory = Bytes{128U << 20U};
  profile.limits.pids = 40;
  const control::Launched launched = launch(machine, launch_of(profile));
  CHECK(launched.warnings.empty());
  CHECK(value_of(launched, "memory") == "134217728");
  CHECK(value_of(launched, "pids") == "40");
  Inside inside(machine);
  inside.expect<ipc::Ready>();
  CHECK(inside.run({"/bin/true"}).status == 0);
  CHECK(inside.run({"echo", "hi"}).out == "hi\n");
  CHECK(inside.run({"python3", "-c", "print(6*7)"}).out == "42\n");
  CHECK(WEXITSTATUS(inside.shell("exit 7").status) == 7);
  CHECK(inside.run({"cat"}, "through stdin").out == "through stdin");
  CHECK(inside.shell("echo no >&2").err == "no\n");
  const auto written = inside.shell("echo x >/work/f && cat /work/f && id -u && touch /usr/x");
  CHECK(written.out == "x\n1000\n");
  CHECK(WEXITSTATUS(written.status) != 0);
  CHECK(inside.shell("cat /etc/machine-id").out == std::string(control::kSeedSize, 'a') + "\n");
  CHECK(inside.shell("unshare -U true; echo $?").out == "1\n");
  CHECK(inside.shell("grep -c . /etc/passwd; ls /etc/ssl").out == "3\ncerts\nopenssl.cnf\n");

  // Limits.
  const auto eaten = inside.run({"python3", "-c", "x = b'x' * (300 << 20)"});
  CHECK(WIFSIGNALED(eaten.status));
  CHECK(control::decode_value(ask(machine, ipc::Fields(control::op::kOomKills))).value() == 1);
  const auto forked = inside.shell("for i in $(seq 60); do sleep 1 & done 2>&1; wait");
  CHECK((forked.out + forked.err).find("fork") != std::string::npos);

  const auto usage = control::decode_usage(ask(machine, ipc::Fields(control::op::kUsage)));
  REQUIRE(usage.ok());
  CHECK(usage.value().cpu_ns.value_or(0) > 0);
  CHECK(usage.value().memory.value_or(0) > 0);
  CHECK(refused(machine, ipc::Fields(control::op::kUmountShares)).code() == Errc::kDenied);
  const auto final = control::decode_final(ask(machine, ipc::Fields(control::op::kFinish)));
  REQUIRE(final.ok());
  CHECK(final.value().oom_kills == 1);
  CHECK(final.value().pids_denied > 0);
  ask(machine, ipc::Fields(control::op::kUmountShares));
  ask(machine, ipc::Fields(control::op::kShutdown));
  CHECK(machine.wait_for_end(10));
  CHECK(machine.console().find("sbx-init") == std::string::npos);
}

TEST_CASE("guest: clones of a template differ in all that must differ") {
  if (!have_machine()) return;
  const Scratch dir;
  MachineOptions options = host_machine();
  options.ram = dir.path() + "/ram";
  {
    PlainMachine machine(options);
    hello(machine);
    ask(machine, ipc::Fields(control::op::kPrepare));
    machine.save_template();
  }
  options.is_clone = true;
  std::string seen[2];
  for (int i = 0; i < 2; ++i) {
    PlainMachine machine(options);
    ask(machine, ipc::Fields(control::op::kHello));
    const double woken = test::now();
    const double cpu = machine.cpu_ms();
    ask(machine, control::encode(some_wake(static_cast<char>('a' + i))));
    ask(machine, control::encode(host_root()));
    launch(machine, launch_of(profile_of("bash")));
    Inside inside(machine);
    inside.expect<ipc::Ready>();
    const auto print = [&](const char* what) {
      std::printf("  wake to %-8s %5.1f ms, CPU %7.1f ms\n",
                  what,
                  (test::now() - woken) * 1000,
                  machine.cpu_ms() - cpu);
    };
    print("ready");
    CHECK(inside.run({"/bin/true"}).status == 0);
    print("true");
    seen[i] =
        inside
            .shell(
                "cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/random/uuid /etc/machine-id;"
                "head -c 16 /dev/urandom | od -An -tx1; date +%s")
            .out;
  }
  CAPTURE(seen[0]);
  CAPTURE(seen[1]);
  const auto first = text::split(seen[0], '\n');
  const auto second = text::split(seen[1], '\n');
  REQUIRE(first.size() == 6);
  REQUIRE(second.size() == 6);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(first[i] != second[i]);
  }
  const std::int64_t now = realtime_ns() / 1'000'000'000;
  CHECK(std::abs(std::stoll(std::string(second[4])) - now) < 5);
}

TEST_CASE("guest: programs of an image run in it, with its owners") {
  if (!have_machine()) return;
  const Scratch dir;
  MachineOptions options;
  options.disks = {"ro:" + busybox_image(dir), empty_disk(dir)};
  PlainMachine machine(options);
  hello(machine);
  ask(machine, control::encode(some_wake('a')));
  control::Root root;
  root.images = {{"vda", "erofs"}};
  root.state_device = "vdb";
  ask(machine, control::encode(root));
  launch(machine, image_launch(0));
  Inside inside(machine);
  inside.expect<ipc::Ready>();
  CHECK(inside.shell("cat /hello; id -u").out == "from the image\n0\n");
  CHECK(inside.shell("stat -c %u:%g /home/u /hello /bin/busybox").out == "1234:1234\n0:0\n0:0\n");
  CHECK(inside.shell("echo new >/hello && cat /hello && rm /etc/passwd && ls /etc/passwd").out ==
        "new\n");
  CHECK(inside.shell("touch /home/u/f && stat -c %u /home/u/f; id -u", "", 1234).out ==
        "1234\n1234\n");
  CHECK(inside.shell("touch /hello; echo $?", "", 1234).out == "1\n");
  CHECK(inside.shell("stat -c %F /data/volume").out == "directory\n");
  CHECK(inside.shell("chown 1234 /hello && stat -c %u /hello").out == "1234\n");
  const auto disk = control::decode_disk(ask(machine, ipc::Fields(control::op::kDisk)));
  REQUIRE(disk.ok());
  CHECK(disk.value().total > 50U << 20U);
  CHECK(disk.value().free < disk.value().total);
  ask(machine, ipc::Fields(control::op::kFinish));
  ask(machine, ipc::Fields(control::op::kShutdown));
  CHECK(machine.wait_for_end(10));
}

TEST_CASE("guest: what a session writes is on its disk when it comes again") {
  if (!have_machine()) return;
  const Scratch dir;
  MachineOptions options = host_machine();
  options.disks = {empty_disk(dir)};
  control::Root root = host_root();
  root.state_device = "vda";
  root.is_state_kept = true;
  control::Launch wanted = launch_of(profile_of("bash"));
  wanted.is_lasting = true;
  for (int life = 0; life < 2; ++life) {
    PlainMachine machine(options);
    hello(machine);
    ask(machine, control::encode(some_wake('a')));
    ask(machine, control::encode(root));
    wanted.layers.emplace();
    wanted.layers->upper = life == 0 ? "aaaaaaaaaa" : "bbbbbbbbbb";
    if (life == 1) wanted.layers->lowers = {"aaaaaaaaaa"};
    const control::Launched launched = launch(machine, wanted);
    CHECK(launched.has_freezer);
    Inside inside(machine);
    inside.expect<ipc::Ready>();
    if (life == 0) {
      CHECK(inside.shell("echo kept >/work/f; echo too >/home/sbx/g").status == 0);
      inside.start("while :; do sleep 0.1; done");
      const auto list = control::decode_processes(ask(machine, ipc::Fields("processes")));
      REQUIRE(list.ok());
      CHECK(list.value().size() >= 1);
      CHECK(list.value()[0].uid == 1000);
      ask(machine, control::flag_request(control::op::kFreeze, true));
      bool is_frozen = false;
      for (int i = 0; i < 100 && !is_frozen; ++i) {
        is_frozen =
            control::decode_flag(ask(machine, control::flag_request(control::op::kFrozen, true)))
                .value();
      }
      CHECK(is_frozen);
      ask(machine, control::flag_request(control::op::kFreeze, false));
      ask(machine, ipc::Fields(control::op::kSync));
    } else {
      CHECK(inside.shell("cat /work/f /home/sbx/g").out == "kept\ntoo\n");
    }
    ask(machine, ipc::Fields(control::op::kFinish));
    ask(machine, ipc::Fields(control::op::kShutdown));
    CHECK(machine.wait_for_end(10));
  }
  must_run({"/usr/sbin/e2fsck", "-f", "-n", options.disks.front()});
}

TEST_CASE("guest: init survives rubbish and refuses what cannot be") {
  if (!have_machine()) return;
  PlainMachine machine(host_machine());
  hello(machine);
  const auto code = [](const ipc::Fields& fields) {
    const auto error = ipc::error_of(fields);
    REQUIRE(error.has_value());
    return error->code();
  };
  CHECK(code(answer_to_rubbish(machine, std::string("\x05\0\0\0\xff\xff\xff\xff\xff", 9))) ==
        Errc::kProtocol);
  CHECK(code(answer_to_rubbish(machine, std::string(4, '\0'))) == Errc::kProtocol);
  std::string deep("\0\0\x10\0", 4);
  deep += std::string(std::size_t{1} << 20, '\x81');
  CHECK(code(answer_to_rubbish(machine, deep)) == Errc::kProtocol);
  std::string longest("\0\0\x10\x01", 4);  // a byte more than 16 MiB
  longest += std::string((std::size_t{17} << 20), 'x');
  CHECK(code(answer_to_rubbish(machine, longest)) == Errc::kLimit);

  CHECK(refused(machine, ipc::Fields("nonsense")).code() == Errc::kUsage);
  CHECK(refused(machine, ipc::Fields(control::op::kWake)).code() == Errc::kSystem);
  CHECK(refused(machine, ipc::Fields(control::op::kUsage)).code() == Errc::kNotFound);
  CHECK(refused(machine, ipc::Fields(control::op::kFinish)).code() == Errc::kNotFound);
  CHECK(refused(machine, ipc::Fields(control::op::kQuiesce)).code() == Errc::kNotFound);
  CHECK(refused(machine, control::encode(launch_of(profile::Profile()))).code() == Errc::kUsage);
  control::Root bad;
  bad.state_device = "../etc/passwd";
  CHECK(refused(machine, control::encode(bad)).code() == Errc::kUsage);
  CHECK(refused(machine, control::encode(host_root())).code() == Errc::kUsage);  // there is one
  control::Launch wanted;
  wanted.profile = "rubbish";
  CHECK_FALSE(refused(machine, control::encode(wanted)).message().empty());
  wanted = launch_of(profile_of("bash"));
  wanted.layers = {{"../x"}, "aaaaaaaaaa"};
  CHECK(refused(machine, control::encode(wanted)).code() == Errc::kUsage);
  ask(machine, ipc::Fields(control::op::kHello));
  ask(machine, ipc::Fields(control::op::kShutdown));
  CHECK(machine.wait_for_end(10));
}
