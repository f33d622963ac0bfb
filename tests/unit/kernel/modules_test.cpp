// Tests of modules: names, what they say of themselves, and the order in which they are loaded.
#include "core/kernel/modules.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

using namespace sbx;
using namespace sbx::kernel;

namespace {

ModuleInfo info(std::vector<std::string> depends,
                std::vector<std::string> before = {},
                std::vector<std::string> aliases = {}) {
  return {std::move(depends), std::move(before), std::move(aliases)};
}

KnownModules full() {
  KnownModules known;
  known.modules = {
      {"virtio_ring", info({})},
      {"virtio", info({"virtio_ring"})},
      {"virtio_mmio", info({"virtio", "virtio_ring"})},
      {"virtio_console", info({"virtio", "virtio_ring"})},
      {"virtio_blk", info({"virtio"})},
      {"virtio_rng", info({"virtio"})},
      {"virtio_balloon", info({"virtio"})},
      {"overlay", info({})},
      {"crc32c_generic", info({}, {}, {"crc32c", "crypto_crc32c"})},
      {"crc32c_intel", info({}, {}, {"crc32c", "crypto_crc32c"})},
      {"libcrc32c", info({}, {"crc32c"})},
      {"erofs", info({"libcrc32c"})},
      {"jbd2", info({}, {"crypto_crc32c"})},
      {"ext4", info({"jbd2"}, {"crypto_crc32c"})},
      {"9pnet", info({})},
      {"9pnet_virtio", info({"virtio", "9pnet"})},
      {"9p", info({"9pnet"})},
  };
  return known;
}

bool stands_before(const ModulePlan& plan, std::string_view a, std::string_view b) {
  const auto left = std::ranges::find(plan.order, a);
  const auto right = std::ranges::find(plan.order, b);
  return left != plan.order.end() && right != plan.order.end() && left < right;
}

}  // namespace

TEST_CASE("modules: what a module needs is loaded before it, once") {
  const ModulePlan plan = plan_modules(full());
  CHECK(plan.vital.empty());
  CHECK(plan.missing.empty());
  CHECK(lacking(plan.features).empty());
  CHECK(stands_before(plan, "virtio_ring", "virtio"));
  CHECK(stands_before(plan, "virtio", "virtio_mmio"));
  CHECK(stands_before(plan, "libcrc32c", "erofs"));
  CHECK(stands_before(plan, "crc32c_generic", "libcrc32c"));
  CHECK(stands_before(plan, "crc32c_generic", "ext4"));
  CHECK(stands_before(plan, "9pnet", "9p"));
  std::vector<std::string> sorted = plan.order;
  std::ranges::sort(sorted);
  CHECK(std::ranges::adjacent_find(sorted) == sorted.end());
  // One provider is enough, and this one asks for no particular processor.
  CHECK(std::ranges::find(plan.order, "crc32c_intel") == plan.order.end());
}

TEST_CASE("modules: what is built in is not loaded") {
  KnownModules known = full();
  known.modules.erase("virtio");
  known.modules.erase("virtio_ring");
  known.modules.erase("overlay");
  known.builtin = {"virtio", "virtio_ring"};
  known.config = {"CONFIG_OVERLAY_FS"};
  const ModulePlan plan = plan_modules(known);
  CHECK(plan.vital.empty());
  CHECK(lacking(plan.features).empty());
  CHECK(std::ranges::find(plan.order, "virtio") == plan.order.end());
}

TEST_CASE("modules: what is missing costs the features that need it") {
  KnownModules known = full();
  known.modules.erase("9pnet");
  known.modules.erase("libcrc32c");
  const ModulePlan plan = plan_modules(known);
  CHECK(plan.vital.empty());
  CHECK_FALSE(plan.features.has_9p);
  CHECK_FALSE(plan.features.has_erofs);
  CHECK(plan.features.has_ext4);
  CHECK(lacking(plan.features).size() == 2);
  CHECK(std::ranges::find(plan.missing, "9pnet") != plan.missing.end());
  CHECK(std::ranges::find(plan.order, "9p") == plan.order.end());

  known.modules.erase("virtio_ring");
  const ModulePlan worse = plan_modules(known);
  CHECK(worse.vital == std::vector<std::string>{"virtio_mmio", "virtio_console"});
}

TEST_CASE("modules: a helper that is missing stops nothing") {
  KnownModules known = full();
  known.modules.erase("crc32c_generic");
  known.modules.erase("crc32c_intel");
  const ModulePlan plan = plan_modules(known);
  CHECK(plan.features.has_ext4);
  CHECK(plan.missing == std::vector<std::string>{"crc32c", "crypto_crc32c"});
  known.builtin_aliases = {"crc32c", "crypto_crc32c"};
  CHECK(plan_modules(known).missing.empty());
}

TEST_CASE("modules: a circle ends") {
  KnownModules known = full();
  known.modules["virtio_ring"] = info({"virtio"}, {"virtio_mmio"});
  const ModulePlan plan = plan_modules(known);
  CHECK(plan.order.size() == full().modules.size() - 1);
}

TEST_CASE("modules: names are compared as the kernel does") {
  CHECK(module_of_path("kernel/drivers/char/hw_random/virtio-rng.ko.xz") == "virtio_rng");
  CHECK(module_of_path("a.ko") == "a");
  CHECK(module_of_path("kernel/a.ko.zst") == "a");
  CHECK(module_of_path("kernel/a.ko.lzma").empty());
  CHECK(module_of_path("kernel/.ko").empty());
  CHECK(module_of_path("kernel/a b.ko").empty());
  CHECK(module_of_path("").empty());
  CHECK(is_module_file("virtio-rng.ko"));
  CHECK_FALSE(is_module_file("../x.ko"));
  CHECK_FALSE(is_module_file("x.ko.xz"));
}

TEST_CASE("modules: texts of a module and of the lists are understood") {
  const ModuleInfo one = parse_modinfo(std::string_view(
      "license=GPL\0depends=a,b-c\0softdep=pre: crc32c d-e post: late\0alias=fs-ext4\0"
      "alias=virtio:d00000002v*\0=\0x\0",
      100));
  CHECK(one.depends == std::vector<std::string>{"a", "b_c"});
  CHECK(one.before == std::vector<std::string>{"crc32c", "d_e"});
  CHECK(one.aliases == std::vector<std::string>{"fs_ext4"});
  CHECK(parse_modinfo(std::string_view("depends=\0", 9)).depends.empty());
  CHECK(parse_builtin("kernel/fs/a.ko\nkernel/b-c.ko\n\njunk\n") ==
        std::set<std::string>{"a", "b_c"});
  CHECK(parse_builtin_aliases(std::string_view("a.license=GPL\0a.alias=crc-x\0b\0", 30)) ==
        std::set<std::string>{"crc_x"});
  const auto config =
      parse_config("# CONFIG_A is not set\nCONFIG_B=y\nCONFIG_C=m\r\nCONFIG_D=y\r\n");
  CHECK(config.size() == 2);
  CHECK(config.contains("CONFIG_D"));
}
