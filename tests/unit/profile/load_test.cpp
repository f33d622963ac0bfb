// Load test: what a start-up pays for a shipped profile, and the fuzz corpus once more.
#include <dirent.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::profile::test::Host;
using sbx::profile::test::read_text;

TEST_CASE("load: a shipped profile costs a fraction of a millisecond") {
  const Host host;
  const LoadRequest request = host.request("python");
  REQUIRE(load(request).ok());
  auto best = std::chrono::nanoseconds::max();
  for (int i = 0; i < 50; ++i) {
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(load(request).ok());
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - start);
  }
  MESSAGE("best of 50: " << best.count() / 1000 << " us");
  CHECK(best < std::chrono::microseconds(sbx::profile::test::kIsSlowBuild ? 30000 : 300));
}

TEST_CASE("load: nothing in the fuzz corpus makes trouble") {
  const std::string path = std::string(SBX_SOURCE_DIR) + "/tests/fuzz/corpus/profile";
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(path.c_str()), closedir);
  REQUIRE(dir != nullptr);
  const Host host;
  int files = 0;
  while (const dirent* entry = readdir(dir.get())) {
    if (entry->d_name[0] == '.') continue;
    CAPTURE(entry->d_name);
    const auto profile = host.load_text(read_text(path + "/" + entry->d_name));
    if (profile.ok()) {
      CHECK(!explain(profile.value()).empty());
      CHECK(!explain_json(profile.value()).empty());
    } else {
      CHECK(!profile.error().message().empty());
    }
    ++files;
  }
  CHECK(files > 10);
}
