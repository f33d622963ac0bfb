// Jail codec tests: every step survives, and a cut plan is refused.
#include "core/backend/jail/jail_codec.h"

#include <string>

#include <doctest/doctest.h>

using namespace sbx;

namespace {

jail::InitPlan full_plan() {
  jail::InitPlan plan;
  plan.rules.capabilities = 0x400;
  plan.rules.is_using_landlock = true;
  plan.rules.rlimits.count = 2;
  plan.rules.rlimits.entries[1] = {7, {10, 20}};
  plan.join_fds = 2;
  plan.held_fds = 1;
  plan.source_fds = 3;
  confine::Scratch scratch{Bytes{4096}, 10, {{"/work", 0755, 1000}, {"/tmp", 01777, -1}}};
  plan.steps = {
      confine::NewRoot{Bytes{1}},
      confine::MakeDir{"/a", 0700, 5},
      confine::MakeFile{"/f", std::string("\0x", 2), 0444},
      confine::MakeLink{"/l", "t"},
      confine::Bind{
          "/usr", "/p", 2, "/usr", confine::BindKind::kDevice, confine::BindMode::kReadWrite},
      scratch,
      confine::Proc{"/proc"},
      confine::DevPts{"/dev/pts"},
      confine::Mask{"/m"},
      confine::Freeze{"/z"},
      confine::ForbidUserNamespaces{},
      confine::Hostname{"h"},
      confine::Loopback{},
      confine::EnterRoot{true, "/work"},
      confine::KeptRoot{"/run/sbx/roots/x", 0, {"", "/etc"}},
      confine::ShowCgroup{"/sys/fs/cgroup"},
      confine::Stage{{{"/layers/a", "", 4}, {"/home/u/p", "/home/u", -1}}},
      confine::Overlay{"/", {{0, "fs/root"}, {1, ""}}, 2, "root"},
      confine::Place{"/bin", confine::PlaceKind::kLink, 0777, 0700, 1000, "usr/bin"},
      confine::Tmpfs{"/dev", Bytes{4096}},
      confine::Seal{"/dev"},
      confine::ScratchSpace{Bytes{1 << 20}, 100, 3},
      confine::Lead{"/data", confine::PlaceKind::kFile, true}};
  return plan;
}

}  // namespace

TEST_CASE("jail codec: a plan with every step decodes to the same bytes and text") {
  const jail::InitPlan plan = full_plan();
  REQUIRE(plan.steps.size() == std::variant_size_v<confine::Step>);
  const std::string bytes = jail::encode_init_plan(plan, plan.steps);
  const auto again = jail::decode_init_plan(bytes);
  REQUIRE(again.ok());
  CHECK(jail::encode_init_plan(again.value(), again.value().steps) == bytes);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    CHECK(confine::to_text(again.value().steps[i]) == confine::to_text(plan.steps[i]));
  }
}

TEST_CASE("jail codec: a plan that is cut anywhere is refused") {
  const std::string bytes = jail::encode_init_plan(full_plan(), full_plan().steps);
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK_FALSE(jail::decode_init_plan(bytes.substr(0, size)).ok());
  }
  CHECK_FALSE(jail::decode_init_plan(bytes + "x").ok());
}
