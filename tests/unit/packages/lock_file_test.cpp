// Lock file test: what is written is read again, and what anybody may have written is looked at.
#include "core/packages/lock_file.h"

#include <string>

#include <doctest/doctest.h>

using namespace sbx::packages;

namespace {

const std::string kSha256 = "sha256:" + std::string(64, 'a');
const std::string kSha512 = "sha512-" + std::string(86, 'B') + "==";

Package pip_package(std::string name, std::string file) {
  return {std::move(name), "1.0", std::move(file), kSha256, ""};
}

Package npm_package(std::string name, std::string place) {
  return {std::move(name), "1.0.0", "", kSha512, std::move(place)};
}

}  // namespace

TEST_CASE("lock_file: what is written is read again") {
  LockFile lock;
  lock.pip.wants = {"numpy>=1"};
  lock.pip.packages = {pip_package("numpy", "numpy-1.0-cp311-cp311-linux_x86_64.whl")};
  lock.pip.site = "lib/python3.11/site-packages";
  lock.npm.wants = {"@a/b@^1"};
  lock.npm.packages = {npm_package("@a/b", "node_modules/@a/b"),
                       npm_package("c", "node_modules/@a/b/node_modules/c")};
  lock.npm.tree = R"({"lockfileVersion":3,"packages":{}})";
  const auto again = parse_lock_file(to_json(lock));
  REQUIRE_MESSAGE(again.ok(), again.error().to_string());
  CHECK(again.value().pip.packages == lock.pip.packages);
  CHECK(again.value().pip.wants == lock.pip.wants);
  CHECK(again.value().pip.site == lock.pip.site);
  CHECK(again.value().npm.packages == lock.npm.packages);
  CHECK(again.value().npm.tree == lock.npm.tree);
  CHECK(to_json(again.value()) == to_json(lock));
}

TEST_CASE("lock_file: rubbish and newer formats are told apart") {
  for (const char* bad : {"",
                          "x",
                          "[]",
                          "{}",
                          R"({"format":"1"})",
                          R"({"format":-1})",
                          R"({"format":1,"pip":[]})",
                          R"({"format":1,"pip":{"wants":[]}})",
                          R"({"format":1,"pip":{"wants":[1],"packages":[]}})",
                          R"({"format":1,"pip":{"wants":[],"packages":[{}]}})",
                          R"({"format":1,"pip":{"wants":[],"packages":[1]}})"}) {
    const auto lock = parse_lock_file(bad);
    REQUIRE_MESSAGE(!lock.ok(), bad);
    CHECK(lock.error().code() == sbx::Errc::kProtocol);
  }
  CHECK(parse_lock_file(R"({"format":2})").error().code() == sbx::Errc::kUnsupported);
}

TEST_CASE("lock_file: names, versions, files, places and digests have their form") {
  const auto is_sound = [](Kind kind, const Package& package) {
    Locked locked;
    locked.packages = {package};
    return check(kind, locked).ok();
  };
  CHECK(is_sound(Kind::kPip, pip_package("a", "a.whl")));
  for (const char* file :
       {"", "../a.whl", "/a.whl", "a/b.whl", ".a", "-a.whl", "a\nb", "a b", "a\\b"}) {
    CHECK_MESSAGE(!is_sound(Kind::kPip, pip_package("a", file)), file);
  }
  for (const char* name : {"", "-a", "../a", "a b", "a\n"}) {
    CHECK_MESSAGE(!is_sound(Kind::kPip, pip_package(name, "a.whl")), name);
  }
  CHECK(is_sound(Kind::kNpm, npm_package("a", "node_modules/a")));
  for (const char* place : {"",
                            "a",
                            "node_modules",
                            "node_modules/",
                            "node_modules/..",
                            "node_modules/../a",
                            "node_modules/a/../b",
                            "/node_modules/a",
                            "node_modules/a/b",
                            "node_modules/a/node_modules/",
                            "node_modules/a/node_modules/.."}) {
    CHECK_MESSAGE(!is_sound(Kind::kNpm, npm_package("a", place)), place);
  }
  Package wrong = pip_package("a", "a.whl");
  wrong.digest = kSha512;
  CHECK(!is_sound(Kind::kPip, wrong));
  wrong.digest = "sha256:" + std::string(64, 'g');
  CHECK(!is_sound(Kind::kPip, wrong));
  wrong = pip_package("a", "a.whl");
  for (const char* version : {"", "-1", "1 2", "1/2", "$(x)"}) {
    wrong.version = version;
    CHECK_MESSAGE(!is_sound(Kind::kPip, wrong), version);
  }
}

TEST_CASE("lock_file: the directory of modules cannot lead out of the set") {
  for (const char* site : {"..",
                           "/etc",
                           "lib/../site-packages",
                           "lib/x/../../etc",
                           "lib/x/other",
                           "lib//site-packages",
                           "lib/a:b/site-packages"}) {
    Locked locked;
    locked.packages = {pip_package("a", "a.whl")};
    locked.site = site;
    CHECK_MESSAGE(!check(Kind::kPip, locked).ok(), site);
  }
}

TEST_CASE("lock_file: exact specs are sorted and without doubles") {
  Locked locked;
  locked.packages = {npm_package("b", "node_modules/b"),
                     npm_package("a", "node_modules/a"),
                     npm_package("a", "node_modules/b/node_modules/a")};
  CHECK(exact_specs(Kind::kNpm, locked) == std::vector<std::string>{"a@1.0.0", "b@1.0.0"});
  locked.packages = {pip_package("a", "a.whl")};
  CHECK(exact_specs(Kind::kPip, locked) == std::vector<std::string>{"a==1.0"});
}
