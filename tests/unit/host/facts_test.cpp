#include "core/host/facts.h"

#include <unistd.h>

#include <string>

#include <doctest/doctest.h>

#include "core/base/clock.h"

#include "tests/support/skip.h"

namespace sbx::host {

TEST_CASE("facts: kernel releases as they come") {
  CHECK(parse_kernel_version("6.1.0-18-amd64") == KernelVersion{6, 1});
  CHECK(parse_kernel_version("6.18.44-fc-v857") == KernelVersion{6, 18});
  CHECK(parse_kernel_version("5.15-rc1") == KernelVersion{5, 15});
  CHECK(parse_kernel_version("7.0") == KernelVersion{7, 0});
  for (const char* nonsense : {"", "x", "6", "6.", "6.x", ".1", "99999999999.1"}) {
    CHECK(parse_kernel_version(nonsense) == KernelVersion{});
  }
  CHECK(KernelVersion{6, 1} < KernelVersion{6, 18});
}

TEST_CASE("facts: a user namespace is found by making one") {
  SKIP_UNLESS("userns");
  Facts facts;
  const Ability& ability = facts.userns();
  CAPTURE(ability.cause);
  CAPTURE(ability.fix);
  CHECK(ability.ok);
}

TEST_CASE("facts: all of them as text, each found once") {
  Facts facts;
  const std::string text = facts.to_text();
  INFO(text);
  CHECK(facts.kernel() != KernelVersion{});
  CHECK(facts.is_root() == (::geteuid() == 0));
  CHECK(text.find("user namespace: ") != std::string::npos);
  CHECK(text.find("cgroup memory: ") != std::string::npos);
  CHECK(facts.to_text() == text);
}

TEST_CASE("facts: what each costs (printed, not judged)") {
  Facts facts;
  const auto timed = [](const char* name, auto get) {
    const std::int64_t start = monotonic_ns();
    (void)get();
    MESSAGE(std::string(name) << ": " << (monotonic_ns() - start) / 1000 << " us");
  };
  timed("kernel", [&] { return facts.kernel(); });
  timed("landlock", [&] { return facts.landlock_abi(); });
  timed("id ranges", [&] { return facts.may_map_id_ranges(); });
  timed("cgroups", [&] { return facts.cgroups().ok(); });
  timed("userns", [&] { return facts.userns().ok; });
}

}  // namespace sbx::host
