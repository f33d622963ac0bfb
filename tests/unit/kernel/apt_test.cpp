// Tests of apt: what apt-cache and apt-get print; no network.
#include "core/kernel/apt.h"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sbx;
using namespace sbx::kernel;

TEST_CASE("apt: the package that names the newest kernel depends on it") {
  const auto fields = parse_apt_show(
      "Package: linux-image-amd64\nVersion: 6.1.192-3\nDepends: linux-base, "
      "linux-image-6.1.0-57-amd64 (= 6.1.192-3)\nDescription: Linux\n Size: 1 of a text\n"
      "Size: 1476\n\nPackage: linux-image-amd64\nVersion: 5\n");
  REQUIRE(fields.ok());
  CHECK(fields.value().package.name == "linux-image-amd64");
  CHECK(fields.value().package.version == "6.1.192-3");
  CHECK(fields.value().package.bytes == 1476);
  CHECK(fields.value().depends_on == "linux-image-6.1.0-57-amd64");
}

TEST_CASE("apt: a kernel depends on no other") {
  const auto fields = parse_apt_show(
      "Package: linux-image-6.1.0-57-amd64\nVersion: 6.1.192-3\n"
      "Depends: kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120+deb8u2) | "
      "linux-initramfs-tool\nSize: 70591024\n");
  REQUIRE(fields.ok());
  CHECK(fields.value().depends_on.empty());
  CHECK(fields.value().package.bytes == 70591024);
}

TEST_CASE("apt: nothing is made of an answer without a package") {
  for (const std::string_view text : {"", "Package: a\n", "Version: 1\n", "garbage", "\n"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_apt_show(text).ok());
  }
}

TEST_CASE("apt: the message is the line that says what is wrong") {
  CHECK(apt_message("W: a warning\nE: Failed to fetch x  404  Not Found\nE: more\n") ==
        "Failed to fetch x  404  Not Found");
  CHECK(apt_message("something else\nat the end\n") == "at the end");
  CHECK(apt_message("").empty());
}
