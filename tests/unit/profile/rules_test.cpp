// Rules test: names, paths and capabilities.
#include "core/profile/rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/confine/caps.h"

#include "tests/unit/profile/support.h"

using namespace sbx::profile;

TEST_CASE("rules: host names, extensions, package and file names") {
  for (const char* good : {"sbx", "a", "A-1", "0x"}) {
    CHECK_MESSAGE(hostname_complaint(good).empty(), good);
  }
  for (const char* bad : {"", "-a", "a-", "a.b", "a_b", "a b", "caf\xC3\xA9"}) {
    CHECK_MESSAGE(!hostname_complaint(bad).empty(), bad);
  }
  CHECK(!hostname_complaint(std::string(64, 'a')).empty());
  CHECK(extension_complaint(".py").empty());
  for (const char* bad : {"", ".", "py", ".tar.gz", "./x"}) {
    CHECK_MESSAGE(!extension_complaint(bad).empty(), bad);
  }
  CHECK(base_name_complaint("main.py").empty());
  for (const char* bad : {"", ".", "..", "a/b", "a\nb"}) {
    CHECK_MESSAGE(!base_name_complaint(bad).empty(), bad);
  }
  CHECK(package_complaint("g++-12").empty());
  for (const char* bad : {"", "A", "-x", "a b", "a;b", "$(x)"}) {
    CHECK_MESSAGE(!package_complaint(bad).empty(), bad);
  }
}

TEST_CASE("rules: profile names are file names without surprises") {
  for (const char* good : {"python", "py3.11", "a_b-c", "0"}) {
    CHECK_MESSAGE(name_complaint(good).empty(), good);
  }
  for (const char* bad : {"", ".", "..", ".a", "-a", "a/b", "/a", "a b", "a\\b", "a:b"}) {
    CHECK_MESSAGE(!name_complaint(bad).empty(), bad);
  }
  CHECK(!name_complaint(std::string(65, 'a')).empty());
}

TEST_CASE("rules: working directories are inside and not in the kernel's file systems") {
  for (const char* good : {"/work", "/", "/data/x", "/dev/shm", "/dev/shm/x", "/processes"}) {
    CHECK_MESSAGE(workdir_complaint(good).empty(), good);
  }
  for (const char* bad : {"",
                          "work",
                          "/proc/self/fd/7",
                          "/proc",
                          "//proc/",
                          "/./proc",
                          "/a/../b",
                          "/sys",
                          "/dev",
                          "/dev/fd/3"}) {
    CHECK_MESSAGE(!workdir_complaint(bad).empty(), bad);
  }
}

TEST_CASE("rules: paths are compared by components") {
  CHECK(normal_path("//a/./b//") == "/a/b");
  CHECK(normal_path("/") == "/");
  CHECK(is_within("/a/b", "/a"));
  CHECK(is_within("/a", "/a"));
  CHECK(is_within("/a", "/"));
  CHECK(!is_within("/ab", "/a"));
  CHECK(!is_within("/", "/a"));
}

TEST_CASE("rules: capabilities are those that the jail grants") {
  const auto own = allowed_capability_names();
  const auto confine = sbx::confine::allowed_capabilities();
  CHECK(std::vector<std::string_view>(own.begin(), own.end()) ==
        std::vector<std::string_view>(confine.begin(), confine.end()));
  CHECK(canonical_capability("net_bind_service") == "CAP_NET_BIND_SERVICE");
  CHECK(canonical_capability("cap_kill") == "CAP_KILL");
  CHECK(capability_complaint("kill").empty());
  CHECK(capability_complaint("SYS_ADMIN").find("not given to a sandbox") != std::string::npos);
  CHECK(capability_complaint("all").find("name the capabilities") != std::string::npos);
  CHECK(capability_complaint("cap_kil").find("did you mean CAP_KILL?") != std::string::npos);
  CHECK(!capability_complaint("").empty());
}
