// tools_test: which commands mean another file to the user than to a sandbox.
#include "core/host/tools.h"

#include <array>
#include <map>
#include <string>

#include <doctest/doctest.h>

namespace sbx::host {

namespace {

constexpr std::string_view kInside = "/usr/local/bin:/usr/bin";

/// What is on the disk: a path and where it leads to.
ExecutableLookup disk(std::map<std::string, std::string> files) {
  return [files = std::move(files)](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return std::nullopt;
    return found->second;
  };
}

}  // namespace

TEST_CASE("tools: a command from the user's own directory differs, with both paths") {
  const std::array<std::string_view, 3> commands{"python3", "node", "ruby"};
  const auto lookup = disk({{"/home/u/.pyenv/shims/python3", "/home/u/.pyenv/shims/python3"},
                            {"/usr/bin/python3", "/usr/bin/python3.11"},
                            {"/opt/node/bin/node", "/opt/node/bin/node"},
                            {"/usr/bin/ruby", "/usr/bin/ruby3.1"}});
  const auto found =
      differing_tools(commands, "/home/u/.pyenv/shims:/opt/node/bin:/usr/bin", kInside, lookup);
  REQUIRE(found.size() == 2);
  CHECK(found[0].command == "python3");
  CHECK(found[0].own == "/home/u/.pyenv/shims/python3");
  CHECK(found[0].inside == "/usr/bin/python3");
  CHECK(found[1].command == "node");
  CHECK(found[1].inside.empty());
}

TEST_CASE("tools: links to one file are no difference, nor is a command that nobody has") {
  const std::array<std::string_view, 2> commands{"python3", "php"};
  const auto lookup =
      disk({{"/bin/python3", "/usr/bin/python3.11"}, {"/usr/bin/python3", "/usr/bin/python3.11"}});
  CHECK(differing_tools(commands, "/bin:/usr/bin", kInside, lookup).empty());
  CHECK(differing_tools(commands, "", kInside, lookup).empty());
}

TEST_CASE("tools: empty and relative directories of PATH are passed over") {
  const std::array<std::string_view, 1> commands{"node"};
  const auto lookup = disk({{"/node", "/node"}, {"bin/node", "/x"}, {"node", "/y"}});
  CHECK(differing_tools(commands, ":bin:.:", kInside, lookup).empty());
  CHECK(differing_tools(commands, ":bin:/", kInside, lookup).size() == 1);
}

TEST_CASE("tools: the disk is asked for an executable file, through links") {
  CHECK(executable_at("/bin/sh").has_value());
  CHECK_FALSE(executable_at("/usr").has_value());
  CHECK_FALSE(executable_at("/etc/passwd").has_value());
  CHECK_FALSE(executable_at("/no/such/file").has_value());
}

}  // namespace sbx::host
