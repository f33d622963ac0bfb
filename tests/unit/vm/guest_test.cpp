// Tests of a guest's init, in emulated machines with Debian's 6.1 kernel.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/backend/vm/control.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/profile/profile.h"
#include "core/profile/saved.h"

#include "tests/support/process.h"
#include "tests/support/skip.h"
#include "tests/unit/vm/plain_machine.h"

using namespace sbx;
using namespace sbx::vm;
using test::MachineOptions;
using test::PlainMachine;

namespace {

constexpr Millis kBoot{60'000};
constexpr Millis kCall{20'000};

/// With the console in the message when it fails.
ipc::Fields ask(PlainMachine& machine, ipc::Fields request, Millis deadline = kCall) {
  const std::string op = request.op();
  const double begin = test::now();
  const auto answer = machine.control().call(std::move(request), deadline);
  const std::string error = answer.ok() ? "" : answer.error().to_string();
  CAPTURE(op);
  CAPTURE(error);
  const std::string console = answer.ok() ? "" : machine.console();
  CAPTURE(console);
  REQUIRE(answer.ok());
  std::printf("  %-14s %7.1f ms, in the guest %7.1f ms\n",
              op.c_str(),
              (test::now() - begin) * 1000,
              static_cast<double>(answer.value().number("took_us")) / 1000);
  return answer.value();
}

control::Hello hello(PlainMachine& machine) {
  const auto got = control::decode_hello(ask(machine, ipc::Fields(control::op::kHello), kBoot));
  REQUIRE(got.ok());
  std::printf("  kernel start to init %.0f ms, to ready %.0f ms, QEMU to hello %.0f ms\n",
              static_cast<double>(got.value().init_us) / 1000,
              static_cast<double>(got.value().ready_us) / 1000,
              (test::now() - machine.started()) * 1000);
  return got.value();
}

control::Wake some_wake(char seed) {
  return {std::string(control::kSeedSize, seed),
          realtime_ns(),
          text::cat("guest-", seed),
          std::string(control::kSeedSize, seed)};
}

profile::Profile profile_of(const std::string& name) {
  profile::LoadRequest request;
  request.name_or_path = name;
  auto loaded = profile::load(request);
  REQUIRE(loaded.ok());
  return std::move(loaded).value();
}

control::Root host_root() {
  control::Root root;
  root.shares = {{"usr", "/usr", true}, {"etc", "/etc", true}};
  root.links = {
      {"/bin", "usr/bin"}, {"/sbin", "usr/sbin"}, {"/lib", "usr/lib"}, {"/lib64", "usr/lib64"}};
  return root;
}

MachineOptions host_machine() {
  MachineOptions options;
  options.shares = {{"usr", "/usr"}, {"etc", "/etc"}};
  return options;
}

control::Launched launch(PlainMachine& machine, const control::Launch& wanted) {
  const auto got = control::decode_launched(ask(machine, control::encode(wanted)));
  REQUIRE(got.ok());
  for (const auto& [what, micros] : got.value().spent) {
    std::printf("    %-12s %7.1f ms\n", what.c_str(), static_cast<double>(micros) / 1000);
  }
  return got.value();
}

}  // namespace

TEST_CASE("guest: a jail is launched in it with the host's tree") {
  if (!test::have_machine()) return;
  PlainMachine machine(host_machine());
  const control::Hello said = hello(machine);
  CHECK(said.version == control::kVersion);
  ask(machine, control::encode(some_wake('a')));
  ask(machine, control::encode(host_root()));
  control::Launch wanted;
  wanted.id = "t1";
  wanted.profile = profile::save(profile_of("bash"));
  const control::Launched launched = launch(machine, wanted);
  for (const confine::InForce& limit : launched.limits) {
    std::printf("    %s %s %s %d\n",
                limit.limit.c_str(),
                limit.value.c_str(),
                limit.mechanism.c_str(),
                limit.approximate);
  }
  CHECK(launched.warnings.empty());
  ask(machine, ipc::Fields(control::op::kUsage));
  ask(machine, ipc::Fields(control::op::kFinish));
  ask(machine, ipc::Fields(control::op::kUmountShares));
  ask(machine, ipc::Fields(control::op::kShutdown));
  CHECK(machine.wait_for_end(10));
  CAPTURE(machine.console());
}
