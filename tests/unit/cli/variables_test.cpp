// Variables test: a mistyped SBX_* variable is told, a right one and others' are not.
#include "cli/variables.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "core/profile/profile.h"

using sbx::cli::unknown_variables;

TEST_CASE("variables: a mistyped one is told once, with what was meant") {
  const std::array<std::string_view, 3> environment{"PATH=/bin", "SBX_MEMROY=1G", "SBXX_MEMORY=1G"};
  const std::vector<std::string> said = unknown_variables(environment);
  REQUIRE(said.size() == 1);
  CHECK(said[0] == "the variable SBX_MEMROY means nothing to sbx; did you mean SBX_MEMORY?");
}

TEST_CASE("variables: one like none of ours is told without a proposal, its value never") {
  const std::array<std::string_view, 2> environment{"SBX_PASSWORD_OF_X=secret", "SBX_=\x1b"};
  const std::vector<std::string> said = unknown_variables(environment);
  REQUIRE(said.size() == 2);
  CHECK(said[0] == "the variable SBX_PASSWORD_OF_X means nothing to sbx");
  CHECK(said[1] == "the variable SBX_ means nothing to sbx");
}

TEST_CASE("variables: every one of the profile keys, and the fixed ones, are known") {
  std::vector<std::string> lines{
      "SBX_PROFILE=x", "SBX_LOG_LEVEL=x", "SBX_STATE_DIR=/x", "SBX_STATE_BUDGET=1G"};
  for (const auto& key : sbx::profile::key_infos()) {
    if (!key.env.empty()) lines.push_back(std::string(key.env) + "=x");
  }
  CHECK(lines.size() > 6);
  const std::vector<std::string_view> environment(lines.begin(), lines.end());
  CHECK(unknown_variables(environment).empty());
}
