// Tool test: what language.path shows of the host, and what it refuses.
#include "core/profile/tool.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/profile/support.h"

using namespace sbx;
using namespace sbx::profile;
using sbx::profile::test::Host;

namespace {

void put_program(const Host& host, const std::string& rel) {
  REQUIRE(fs::mkdirs(host.path(rel.substr(0, rel.rfind('/'))), 0755).ok());
  host.write(rel,
             "\x7f"
             "ELF");
  REQUIRE(::chmod(host.path(rel).c_str(), 0755) == 0);
}

void put_link(const Host& host, const std::string& rel, const std::string& target) {
  REQUIRE(fs::mkdirs(host.path(rel.substr(0, rel.rfind('/'))), 0755).ok());
  REQUIRE(::symlink(target.c_str(), host.path(rel).c_str()) == 0);
}

/// Sources without the host's own directory in front; an error's text instead.
std::vector<std::string> shown(const Host& host,
                               const std::string& rel,
                               const std::string& project = {}) {
  const auto mounts = tool_mounts({host.path(rel), project}, host.path("/home"));
  if (!mounts.ok()) return {mounts.error().message()};
  std::vector<std::string> sources;
  for (const Mount& mount : mounts.value()) {
    CHECK(mount.mode == MountMode::kReadOnly);
    CHECK(mount.source == mount.target);
    CHECK(mount.beneath == project);
    sources.push_back(mount.source.substr(host.path("").size()));
  }
  return sources;
}

using Texts = std::vector<std::string>;

bool says(const Texts& texts, std::string_view words) {
  return texts.size() == 1 && texts[0].find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("tool: the tree above bin is shown, and those that its links lead to") {
  const Host host;
  put_program(host, "/opt/py-3/bin/python3.12");
  put_link(host, "/opt/py-3/bin/python3", "python3.12");
  put_link(host, "/opt/py/bin/python3", "../../py-3/bin/python3");
  put_link(host, "/home/venv/bin/python3", host.path("/opt/py/bin/python3"));
  CHECK(shown(host, "/opt/py-3/bin/python3") == Texts{"/opt/py-3"});
  CHECK(shown(host, "/home/venv/bin/python3") == Texts{"/home/venv", "/opt/py", "/opt/py-3"});
}

TEST_CASE("tool: of directories that hold more than programs only the file is shown") {
  const Host host;
  for (const char* rel : {"/home/bin/x", "/home/.local/bin/x", "/bin/x", "/opt/x"}) {
    CAPTURE(rel);
    put_program(host, rel);
    CHECK(shown(host, rel) == Texts{rel});
  }
  put_program(host, "/home/.venv/bin/x");
  CHECK(shown(host, "/home/.venv/bin/x") == Texts{"/home/.venv/bin/x"});
  host.write("/home/.venv/pyvenv.cfg", "");
  CHECK(shown(host, "/home/.venv/bin/x") == Texts{"/home/.venv"});
  put_program(host, "/home/.pyenv/versions/3/bin/x");
  CHECK(shown(host, "/home/.pyenv/versions/3/bin/x") == Texts{"/home/.pyenv/versions/3"});
}

TEST_CASE("tool: what every sandbox sees needs no mount") {
  const auto mounts = tool_mounts({"/usr/bin/env", {}}, "/root");
  REQUIRE(mounts.ok());
  CHECK(mounts.value().empty());
}

TEST_CASE("tool: what is no program is refused with the reason") {
  const Host host;
  put_program(host, "/home/.pyenv/shims/python3");
  put_program(host, "/home/.cargo/bin/rustup");
  put_link(host, "/home/.cargo/bin/rustc", "rustup");
  host.write("/home/text", "x");
  put_link(host, "/home/circle", "circle");
  CHECK(says(shown(host, "/home/none"), "is not there"));
  CHECK(says(shown(host, "/home/.pyenv/shims/python3"), "pyenv which"));
  CHECK(says(shown(host, "/home/.cargo/bin/rustc"), "rustup which"));
  CHECK(says(shown(host, "/home"), "is no program"));
  CHECK(says(shown(host, "/home/circle"), "cannot be used"));
  if (::geteuid() != 0) CHECK(says(shown(host, "/home/text"), "is not executable"));
}

TEST_CASE("tool: a project's own tool may not lead out of the project") {
  const Host host;
  put_link(host, "/project/venv/bin/python3", "/usr/bin/env");
  put_program(host, "/opt/py/bin/python3");
  put_link(host, "/project/other/bin/python3", host.path("/opt/py/bin/python3"));
  const std::string project = host.path("/project");
  CHECK(shown(host, "/project/venv/bin/python3", project) == Texts{"/project/venv"});
  CHECK(says(shown(host, "/project/other/bin/python3", project), "--allow-outside"));
}

TEST_CASE("tool: language.path is relative to its profile, and brings its mounts along") {
  const Host host;
  put_program(host, "/project/venv/bin/python3");
  host.write("/project/ci.yaml", "extends: python\nlanguage:\n  path: venv/bin/python3\n");
  const auto profile = load(host.request(host.path("/project/ci.yaml")));
  REQUIRE(profile.ok());
  CHECK(profile.value().language.path.path == host.path("/project/venv/bin/python3"));
  REQUIRE(profile.value().mounts.size() == 1);
  CHECK(profile.value().mounts[0].target == host.path("/project/venv"));
  CHECK(profile.value().mounts[0].beneath == host.path("/project"));
  CHECK(explain(profile.value()).find("/project/venv:") != std::string::npos);
}

TEST_CASE("tool: a project cannot name a program outside, nor a profile without a language") {
  const Host host;
  host.write("/project/ci.yaml", "extends: python\nlanguage:\n  path: /usr/bin/env\n");
  const auto outside = load(host.request(host.path("/project/ci.yaml")));
  REQUIRE(!outside.ok());
  CHECK(outside.error().message().find("ci.yaml:3:9") != std::string::npos);
  CHECK(outside.error().message().find("--allow-outside") != std::string::npos);
  auto request = host.request("base");
  request.overrides = {{"language.path", "/usr/bin/env", "--set language.path"}};
  const auto senseless = load(request);
  REQUIRE(!senseless.ok());
  CHECK(senseless.error().message().find("no interpreter") != std::string::npos);
}
