// Merge test: layers over layers, with origins.
#include <string>
#include <vector>

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::Bytes;
using sbx::profile::test::add_to;
using sbx::profile::test::Host;
using sbx::profile::test::set_key;

TEST_CASE("merge: flag over variable over file over shipped, each with its origin") {
  Host host;
  host.write("/user/a.yaml", "limits:\n  memory: 1G\n  pids: 50\n  cpus: 2\n");
  host.set_env("SBX_MEMORY", "2G");
  host.set_env("SBX_PIDS", "60");
  LoadRequest request = host.request("a");
  request.overrides = {set_key("limits.memory", "3G")};
  const auto loaded = load(request);
  REQUIRE(loaded.ok());
  const Profile& profile = loaded.value();
  CHECK(profile.limits.memory == Bytes{3UL << 30U});
  CHECK(profile.limits.pids == 60);
  CHECK(profile.limits.cpu_millis == 2000);
  CHECK(profile.origins.at("limits.memory").where == "--set limits.memory");
  CHECK(profile.origins.at("limits.memory").layer == Layer::kFlag);
  CHECK(profile.origins.at("limits.pids").where == "SBX_PIDS");
  CHECK(profile.origins.at("limits.pids").layer == Layer::kEnv);
  CHECK(profile.origins.at("limits.cpus").where == host.path("/user/a.yaml") + ":4:9");
  CHECK(profile.origins.at("limits.cpus").layer == Layer::kUser);
  CHECK(profile.origins.at("limits.timeout").where == "base.yaml:15:12");
  CHECK(profile.is_explicit("limits.memory"));
  CHECK(profile.is_explicit("limits.pids"));
  CHECK(!profile.is_explicit("limits.timeout"));
  CHECK(!profile.is_explicit("limits.disk"));
}

TEST_CASE("merge: unlimited takes an inherited limit away") {
  const Host host;
  const auto profile = host.load_text(
      "limits: {memory: unlimited, pids: unlimited, timeout: unlimited, output: unlimited}");
  REQUIRE(profile.ok());
  CHECK(!profile.value().limits.memory);
  CHECK(!profile.value().limits.pids);
  CHECK(!profile.value().limits.timeout);
  CHECK(!profile.value().limits.output);
  CHECK(profile.value().is_explicit("limits.memory"));
}

TEST_CASE("merge: env by name, mounts by target, other lists as a whole") {
  const Host host;
  host.write("/user/a.yaml",
             "env: {A: 1, B: 2}\nmounts: [/x:/a, /y:/b]\nrequire: [p, q]\ncapabilities: [kill]\n");
  host.write("/user/b.yaml",
             "extends: a\nenv: {B: 3, C: 4}\nmounts: [/z:/b:rw, /w:/c]\nrequire: [r]\n"
             "capabilities: []\n");
  const auto loaded = load(host.request("b"));
  REQUIRE(loaded.ok());
  const Profile& profile = loaded.value();
  REQUIRE(profile.env.size() == 3);
  CHECK(profile.env[0].name == "A");
  CHECK(profile.env[1].value == "3");
  CHECK(profile.env[2].name == "C");
  REQUIRE(profile.mounts.size() == 3);
  CHECK(profile.mounts[1].source == "/z");
  CHECK(profile.mounts[1].mode == MountMode::kReadWrite);
  CHECK(profile.require == std::vector<std::string>{"r"});
  CHECK(profile.capabilities.empty());
  CHECK(profile.origins.at("env.A").where == host.path("/user/a.yaml") + ":1:7");
  CHECK(profile.origins.at("mounts./c").where == host.path("/user/b.yaml") + ":3:20");
}

TEST_CASE("merge: flags add to lists, set them, or set one variable with any bytes") {
  const Host host;
  host.write("/user/a.yaml", "require: [p]\nenv: {A: 1}\n");
  LoadRequest request = host.request("a");
  request.overrides = {add_to("require", "q, [x"),
                       add_to("mounts", "/a:/m"),
                       set_key("env.A", "\xFF=:\"'"),
                       set_key("env.B", ""),
                       set_key("language.interpreter", "[python3, -u]"),
                       set_key("language.extensions", ".x")};
  const auto loaded = load(request);
  REQUIRE(loaded.ok());
  const Profile& profile = loaded.value();
  CHECK(profile.require == std::vector<std::string>{"p", "q, [x"});
  CHECK(profile.mounts.at(0).target == "/m");
  CHECK(profile.env.at(0).value == "\xFF=:\"'");
  CHECK(profile.env.at(1).value.empty());
  CHECK(profile.language.interpreter == std::vector<std::string>{"python3", "-u"});
  CHECK(profile.language.extensions == std::vector<std::string>{".x"});
  CHECK(profile.origins.at("language.interpreter").where == "--set language.interpreter");
}

TEST_CASE("merge: mistakes in flags and variables name the flag or variable") {
  Host host;
  const auto mistake = [&](const Override& override) {
    LoadRequest request = host.request("base");
    request.overrides = {override};
    const auto found = check(request);
    REQUIRE(found.ok());
    return found.value().empty() ? std::string("none") : found.value()[0].to_string();
  };
  CHECK(mistake(set_key("limits.memory", "lots"))
            .starts_with("--set limits.memory: 'lots' is not a size"));
  CHECK(mistake(set_key("limits.memroy", "1G")) ==
        "--set limits.memroy: unknown key \"memroy\" (did you mean \"memory\"?)");
  CHECK(mistake(set_key("memory", "1G")) ==
        "--set memory: key \"memory\" belongs below \"limits\"");
  CHECK(mistake(set_key("limits", "1G")).find("limits.KEY=VALUE") != std::string::npos);
  CHECK(mistake(set_key("", "1G")).find("unknown key") != std::string::npos);
  CHECK(mistake(set_key("extends", "python")).find("only stand in a profile file") !=
        std::string::npos);
  CHECK(mistake(set_key("env", "x")).find("env.NAME=VALUE") != std::string::npos);
  CHECK(mistake(set_key("env.1", "x")).find("is no variable name") != std::string::npos);
  CHECK(mistake(set_key("require", "[a")).find("never closed") != std::string::npos);
  CHECK(mistake(set_key("nesting", "yes")) == "--set nesting: expected true or false, not 'yes'");
  CHECK(mistake(add_to("mounts", "/a")).starts_with("--mounts: '/a' is no mount"));

  host.set_env("SBX_TIMEOUT", "30");
  const auto failed = load(host.request("base"));
  REQUIRE(!failed.ok());
  CHECK(failed.error().message().starts_with("SBX_TIMEOUT: '30' has no unit"));
}

TEST_CASE("merge: two mounts of flags on one target are a mistake, over a profile's they are not") {
  const Host host;
  host.write("/user/a.yaml", "mounts: [/x:/m]\n");
  LoadRequest request = host.request("a");
  request.overrides = {add_to("mounts", "/y:/m")};
  REQUIRE(load(request).ok());
  CHECK(load(request).value().mounts.at(0).source == "/y");
  request.overrides.push_back(add_to("mounts", "/z:/m/"));
  CHECK(!load(request).ok());
}

TEST_CASE("merge: empty variables count as unset") {
  CHECK(!process_env("SBX_SURELY_UNSET").has_value());
  REQUIRE(setenv("SBX_TEST_EMPTY", "", 1) == 0);
  CHECK(!process_env("SBX_TEST_EMPTY").has_value());
  Host host;
  host.set_env("SBX_MEMORY", "");
  CHECK(load(host.request("base")).ok());
}
