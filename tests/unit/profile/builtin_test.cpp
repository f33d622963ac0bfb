// Builtin test: the shipped profiles in the binary are what their files say.
#include "core/profile/builtin.h"

#include <dirent.h>

#include <memory>
#include <string>

#include "core/profile/chain.h"

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::profile::test::Host;
using sbx::profile::test::read_text;

namespace {

std::string file_of(const Builtin& builtin) {
  return std::string(SBX_SOURCE_DIR) + "/profiles/" + std::string(builtin.name) + ".yaml";
}

bool same(const YamlNode& a, const YamlNode& b) {
  if (a.kind != b.kind || a.is_quoted != b.is_quoted || a.text != b.text ||
      a.at.line != b.at.line || a.at.column != b.at.column || a.items.size() != b.items.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!same(a.items[i], b.items[i])) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("builtin: every file in profiles/ is embedded, and nothing else") {
  const std::string path = std::string(SBX_SOURCE_DIR) + "/profiles";
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(path.c_str()), closedir);
  REQUIRE(dir != nullptr);
  std::size_t files = 0;
  while (const dirent* entry = readdir(dir.get())) {
    const std::string_view file = entry->d_name;
    if (!file.ends_with(".yaml")) continue;
    ++files;
    CHECK_MESSAGE(find_builtin(file.substr(0, file.size() - 5)) != nullptr, file);
  }
  CHECK(files == builtins().size());
}

TEST_CASE("builtin: the embedded tree equals the one that the file gives when it is parsed") {
  for (const Builtin& builtin : builtins()) {
    CAPTURE(builtin.name);
    const std::string text = read_text(file_of(builtin));
    CHECK(builtin.text == text);
    Diagnostics diagnostics("t");
    CHECK(same(tree_of(builtin), parse_yaml(text, diagnostics)));
    CHECK(diagnostics.empty());
  }
}

TEST_CASE("builtin: a list is found without unfolding the tree") {
  const Builtin* node = find_builtin("node");
  REQUIRE(node != nullptr);
  CHECK(list_items(*node, "language", "extensions") ==
        std::vector<std::string_view>{".js", ".mjs", ".cjs"});
  CHECK(list_items(*node, "language", "shebangs").size() == 2);
  CHECK(list_items(*node, "language", "main").empty());  // a text
  CHECK(list_items(*node, "limits", "extensions").empty());
  CHECK(list_items(*find_builtin("base"), "language", "extensions").empty());
}

TEST_CASE("builtin: every shipped profile is without mistakes, described, and rests on base") {
  const Host host;
  for (const Builtin& builtin : builtins()) {
    CAPTURE(builtin.name);
    const auto profile = load(host.request(std::string(builtin.name)));
    REQUIRE(profile.ok());
    CHECK(!profile.value().description.empty());
    CHECK(profile.value().file.empty());
    CHECK(profile.value().limits.memory.has_value());
    CHECK(profile.value().capabilities.empty());
    CHECK(profile.value().services.empty());
    CHECK(!profile.value().session.ttl.has_value());  // nothing shipped removes files
    if (builtin.name != "agent") {                    // works for days
      CHECK(profile.value().limits.pids == 256);
      CHECK(profile.value().limits.output.has_value());
      CHECK(profile.value().limits.timeout.has_value());
    }
    for (const auto& entry : profile.value().origins) {
      CAPTURE(entry.first);
      CHECK(entry.second.layer == Layer::kBuiltin);
      CHECK(!profile.value().is_explicit(entry.first));
    }
  }
}

TEST_CASE("builtin: a shipped profile is the same where the user has profiles of these names") {
  const Host host;
  host.write("/user/base.yaml", "limits:\n  pids: 7\n");
  const auto profile = load(host.request("python"));
  REQUIRE(profile.ok());
  CHECK(profile.value().limits.pids == 256);
}
