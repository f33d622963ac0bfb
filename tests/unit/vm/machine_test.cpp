// Machine tests: a guest that starts, stands, is saved and loaded, and what is around it. Each as
// root and as an unprivileged user, emulated.
#include "core/backend/vm/machine.h"

#include <fcntl.h>

#include <cstdio>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/backend/vm/sealed.h"
#include "core/base/sys.h"
#include "core/base/text.h"

#include "tests/support/process.h"
#include "tests/support/skip.h"
#include "tests/unit/vm/guest.h"

using namespace sbx;
using test::as_each_user;
using test::Guest;
using test::guest_spec;
using test::started;

namespace {

constexpr Millis kPatience{60'000};

}  // namespace

TEST_CASE(
    "machine: a guest starts, both ports work, it stands and goes on, and ends when told to") {
  as_each_user([](const std::string& state) -> std::string {
    Guest guest(guest_spec(state));
    SBX_EXPECT(started(guest) == "");
    std::printf("start: up after %.0f ms\n", guest.elapsed_ms());
    SBX_EXPECT(guest.echo("hello\n") == "hello\n");
    SBX_EXPECT(guest.sh("echo one two") == "one two\n");
    vm::Machine& machine = guest.machine();
    SBX_EXPECT_OK(machine.stop());
    auto running = machine.is_running();
    SBX_EXPECT_OK(running);
    SBX_EXPECT(!running.value());
    SBX_EXPECT_OK(machine.cont());
    SBX_EXPECT(guest.echo("again\n") == "again\n");
    SBX_EXPECT_OK(machine.balloon(Bytes{uint64_t{200} << 20}));
    SBX_EXPECT_OK(machine.quit());
    auto end = machine.finish();
    SBX_EXPECT_OK(end);
    return {};
  });
}

namespace {

Result<UniqueFd> new_file(const std::string& path) {
  return sys::open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
}

double seconds_of(const std::function<void()>& what) {
  const double before = test::now();
  what();
  return test::now() - before;
}

}  // namespace

TEST_CASE("machine: one that was saved whole goes on in another, where it stood") {
  as_each_user([](const std::string& state) -> std::string {
    auto file = new_file(state + "/saved");
    SBX_EXPECT_OK(file);
    {
      Guest guest(guest_spec(state));
      SBX_EXPECT(started(guest) == "");
      SBX_EXPECT(guest.sh("echo kept > /kept; cat /kept") == "kept\n");
      Status saved;
      const double took = seconds_of(
          [&] { saved = guest.machine().save(file.value().get(), vm::SaveKind::kAll, kPatience); });
      SBX_EXPECT_OK(saved);
      const auto info = sys::fstat(file.value().get());
      std::printf("save all: %.0f ms, %ld bytes\n", took * 1000, info.value().st_size);
      // It could also go on here.
      SBX_EXPECT_OK(guest.machine().cont());
      SBX_EXPECT(guest.sh("echo on") == "on\n");
      SBX_EXPECT_OK(guest.machine().quit());
      SBX_EXPECT_OK(guest.machine().finish());
    }
    vm::MachineSpec spec = guest_spec(state);
    spec.is_incoming = true;
    Guest again(spec);
    SBX_EXPECT(again.problem() == "");
    SBX_EXPECT(::lseek(file.value().get(), 0, SEEK_SET) == 0);
    SBX_EXPECT_OK(again.machine().load(file.value().get(), vm::SaveKind::kAll, kPatience));
    const auto running = again.machine().is_running();
    SBX_EXPECT_OK(running);
    SBX_EXPECT(!running.value());
    SBX_EXPECT_OK(again.machine().cont());
    SBX_EXPECT(again.sh("cat /kept") == "kept\n");
    std::printf("load all: start to answer %.0f ms\n", again.elapsed_ms());
    SBX_EXPECT(again.echo("both\n") == "both\n");
    return {};
  });
}

TEST_CASE("machine: clones of a template start where it stood, and share nothing with each other") {
  as_each_user([](const std::string& state) -> std::string {
    const std::string image = state + "/template.ram";
    auto device = new_file(state + "/template.state");
    auto memory = new_file(image);
    SBX_EXPECT_OK(device);
    SBX_EXPECT_OK(memory);
    vm::MachineSpec spec = guest_spec(state);
    spec.own_memory.emplace();
    {
      Guest guest(spec);
      SBX_EXPECT(started(guest) == "");
      std::printf("template: up after %.0f ms\n", guest.elapsed_ms());
      SBX_EXPECT(guest.sh("echo template > /who") == "");
      Status saved;
      double took = seconds_of([&] {
        saved = guest.machine().save(device.value().get(), vm::SaveKind::kDeviceState, kPatience);
      });
      SBX_EXPECT_OK(saved);
      std::printf("template: device state %.0f ms, %ld bytes\n",
                  took * 1000,
                  sys::fstat(device.value().get()).value().st_size);
      took = seconds_of([&] { saved = guest.machine().save_memory(memory.value().get()); });
      SBX_EXPECT_OK(saved);
      std::printf("template: memory %.0f ms, %ld MB\n",
                  took * 1000,
                  sys::fstat(memory.value().get()).value().st_blocks * 512 / 1'000'000);
      SBX_EXPECT_OK(guest.machine().quit());
      SBX_EXPECT_OK(guest.machine().finish());
    }
    spec.own_memory->image = image;
    spec.is_incoming = true;
    SBX_EXPECT(::fchmod(memory.value().get(), 0400) == 0);
    std::vector<std::unique_ptr<Guest>> clones;
    for (const std::string id : {"a", "b"}) {
      vm::MachineSpec own = spec;
      own.id += id;
      auto& guest = *clones.emplace_back(std::make_unique<Guest>(own));
      SBX_EXPECT(guest.problem() == "");
      const double begun = guest.elapsed_ms();
      SBX_EXPECT(::lseek(device.value().get(), 0, SEEK_SET) == 0);
      SBX_EXPECT_OK(
          guest.machine().load(device.value().get(), vm::SaveKind::kDeviceState, kPatience));
      SBX_EXPECT_OK(guest.machine().cont());
      SBX_EXPECT(guest.sh("cat /who") == "template\n");
      std::printf("clone: start %.0f ms, to answer %.0f ms\n", begun, guest.elapsed_ms());
      SBX_EXPECT(guest.sh("echo " + id + " > /who; cat /who") == id + "\n");
    }
    SBX_EXPECT(clones[0]->sh("cat /who") == "a\n");
    return {};
  });
}

TEST_CASE("machine: what is wrong with a saved state is an error, not a hang") {
  as_each_user([](const std::string& state) -> std::string {
    vm::MachineSpec spec = guest_spec(state);
    spec.is_incoming = true;
    auto file = new_file(state + "/saved");
    SBX_EXPECT_OK(file);
    SBX_EXPECT_OK(sys::write_all(file.value().get(), std::string(4096, 'x')));
    SBX_EXPECT(::lseek(file.value().get(), 0, SEEK_SET) == 0);
    Guest guest(spec);
    SBX_EXPECT(guest.problem() == "");
    const Status loaded = guest.machine().load(file.value().get(), vm::SaveKind::kAll, kPatience);
    SBX_EXPECT(!loaded.ok());
    std::printf("load of rubbish: %s\n", loaded.error().to_string().c_str());
    return {};
  });
}

TEST_CASE("machine: one that was saved sealed is on disk for nobody, and goes on") {
  as_each_user([](const std::string& state) -> std::string {
    const auto key = vm::seal_key(state + "/config");
    SBX_EXPECT_OK(key);
    auto file = new_file(state + "/saved");
    SBX_EXPECT_OK(file);
    const std::string secret = "a-secret-in-memory-of-the-guest";
    vm::MachineSpec spec = guest_spec(state);
    {
      Guest guest(spec);
      SBX_EXPECT(started(guest) == "");
      SBX_EXPECT(guest.sh("echo " + secret + " > /kept") == "");
      auto pipe = vm::start_sealing(file.value().get(), key.value(), spec.id);
      SBX_EXPECT_OK(pipe);
      Status saved;
      const double took = seconds_of([&] {
        saved = guest.machine().save(pipe.value().open_end.get(), vm::SaveKind::kAll, kPatience);
        if (saved.ok()) saved = pipe.value().finish();
      });
      SBX_EXPECT_OK(saved);
      std::printf("save sealed: %.0f ms\n", took * 1000);
    }
    SBX_EXPECT(test::slurp(state + "/saved").find(secret) == std::string::npos);
    spec.is_incoming = true;
    Guest again(spec);
    SBX_EXPECT(again.problem() == "");
    SBX_EXPECT(::lseek(file.value().get(), 0, SEEK_SET) == 0);
    auto pipe = vm::start_unsealing(file.value().get(), key.value(), spec.id);
    SBX_EXPECT_OK(pipe);
    SBX_EXPECT_OK(again.machine().load(pipe.value().open_end.get(), vm::SaveKind::kAll, kPatience));
    SBX_EXPECT_OK(pipe.value().finish());
    SBX_EXPECT_OK(again.machine().cont());
    SBX_EXPECT(again.sh("cat /kept") == secret + "\n");
    std::printf("load sealed: start to answer %.0f ms\n", again.elapsed_ms());
    return {};
  });
}
