// Spec test: kinds, -P, and who may have which name.
#include "core/packages/spec.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sbx::packages;
using sbx::profile::PackagePolicy;
using sbx::profile::Profile;

namespace {

Profile with_interpreter(std::string word) {
  Profile profile;
  profile.name = "t";
  profile.language.interpreter = {std::move(word)};
  return profile;
}

std::string verdict(const PackagePolicy& policy, Kind kind, std::string_view name) {
  return policy_complaint({policy}, kind, name);
}

}  // namespace

TEST_CASE("spec: a package without a kind is of the profile's language") {
  Profile python = with_interpreter("python3");
  REQUIRE(add_wanted({"numpy == 1.26"}, python).ok());
  CHECK(python.packages.pip == std::vector<std::string>{"numpy==1.26"});
  Profile node = with_interpreter("/usr/bin/node");
  REQUIRE(add_wanted({"left-pad@1.3.0", "pip:six"}, node).ok());
  CHECK(node.packages.npm == std::vector<std::string>{"left-pad@1.3.0"});
  CHECK(node.packages.pip == std::vector<std::string>{"six"});
}

TEST_CASE("spec: a profile of another language wants the kind said") {
  Profile bash = with_interpreter("bash");
  const sbx::Status status = add_wanted({"numpy"}, bash);
  REQUIRE(!status.ok());
  CHECK(status.error().code() == sbx::Errc::kUsage);
  CHECK(status.error().hint().find("-P pip:numpy") != std::string::npos);
  CHECK(add_wanted({"npm:left-pad"}, bash).ok());
}

TEST_CASE("spec: -P takes the place of what the profile says of the same package") {
  Profile python = with_interpreter("python3");
  python.packages.pip = {"Num_Py>=1", "six"};
  REQUIRE(add_wanted({"num-py==2"}, python).ok());
  CHECK(python.packages.pip == std::vector<std::string>{"six", "num-py==2"});
}

TEST_CASE("spec: an option stays an option, whatever stands in front of it") {
  Profile python = with_interpreter("python3");
  for (const char* bad : {"--pre", "pip:--pre", "npm:-g", "pip:", "", "npm:./x", "pip:https://x"}) {
    const sbx::Status status = add_wanted({bad}, python);
    CHECK_MESSAGE(!status.ok(), bad);
  }
  CHECK(!python.packages.any());
}

TEST_CASE("spec: names are compared under one spelling") {
  CHECK(folded_name(Kind::kPip, "Flask_SQL.Alchemy--x") == "flask-sql-alchemy-x");
  CHECK(folded_name(Kind::kNpm, "JSONStream_x") == "jsonstream_x");
}

TEST_CASE("spec: a star stands for any characters") {
  CHECK(is_like("*", ""));
  CHECK(is_like("a*c", "abbbc"));
  CHECK(is_like("a*c", "ac"));
  CHECK(is_like("*a*b*", "xxaxxbxx"));
  CHECK(!is_like("a*c", "abcd"));
  CHECK(!is_like("a", "ab"));
  CHECK(!is_like("ab", "a"));
  CHECK(!is_like("", "a"));
  CHECK(!is_like(std::string(50, '*') + "b", std::string(5000, 'a')));
}

TEST_CASE("spec: deny wins, and an allow list leaves nothing else") {
  PackagePolicy policy;
  policy.where = "here";
  CHECK(verdict(policy, Kind::kPip, "numpy").empty());
  policy.deny = {"Num.Py", "npm:*"};
  CHECK(verdict(policy, Kind::kPip, "num_py") == "is refused by packages.deny of here");
  CHECK(verdict(policy, Kind::kPip, "pandas").empty());
  CHECK(!verdict(policy, Kind::kNpm, "left-pad").empty());
  policy.allow = {"*", "num-py"};
  CHECK(!verdict(policy, Kind::kPip, "num_py").empty());
  policy.deny = {};
  policy.allow = {"pip:six", "@types/*"};
  CHECK(verdict(policy, Kind::kPip, "Six").empty());
  CHECK(verdict(policy, Kind::kNpm, "@types/node").empty());
  CHECK(verdict(policy, Kind::kNpm, "six") == "is not in packages.allow of here");
  CHECK(!verdict(policy, Kind::kPip, "sixx").empty());
}

TEST_CASE("spec: a name has to pass every policy") {
  PackagePolicy first;
  first.allow = {"a*"};
  PackagePolicy second;
  second.allow = {"*"};
  second.deny = {"ab"};
  CHECK(policy_complaint({first, second}, Kind::kPip, "ac").empty());
  CHECK(!policy_complaint({first, second}, Kind::kPip, "b").empty());
  CHECK(!policy_complaint({first, second}, Kind::kPip, "ab").empty());
}
