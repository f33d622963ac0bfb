// Explain test: every value in force with its origin, and no secret.
#include <string>

#include "tests/unit/profile/support.h"
#include <nlohmann/json.hpp>

using namespace sbx::profile;
using sbx::profile::test::Host;
using sbx::profile::test::set_key;

namespace {

/// The words of the line that starts with `key`, joined by one space.
std::string line_of(const std::string& text, const std::string& key) {
  const std::size_t start = text.find("\n" + key + " ");
  if (start == std::string::npos) return "(none)";
  const std::string line = text.substr(start + 1, text.find('\n', start + 1) - start - 1);
  std::string out;
  for (const char c : line) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  return out;
}

}  // namespace

TEST_CASE("explain: every key has a line with its value and where that comes from") {
  Host host;
  host.write("/user/a.yaml",
             "extends: python\nlimits: {memory: 1g, cpus: 1.5, timeout: unlimited}\n"
             "mounts: ['/srv:/data']\n");
  host.set_env("SBX_PIDS", "99");
  LoadRequest request = host.request("a");
  request.overrides = {set_key("nesting", "true")};
  const std::string text = explain(load(request).value());
  const std::string file = host.path("/user/a.yaml");
  CHECK(text.starts_with("profile a (" + file + ")\n"));
  CHECK(line_of(text, "limits.memory") ==
        "limits.memory 1G (1073741824 bytes) user " + file + ":2:18");
  CHECK(line_of(text, "limits.cpus") == "limits.cpus 1.5 user " + file + ":2:28");
  CHECK(line_of(text, "limits.timeout") == "limits.timeout unlimited user " + file + ":2:42");
  CHECK(line_of(text, "limits.pids") == "limits.pids 99 SBX_PIDS");
  CHECK(line_of(text, "limits.output") ==
        "limits.output 64M (67108864 bytes) shipped base.yaml:18:11");
  CHECK(line_of(text, "nesting") == "nesting true --set nesting");
  CHECK(line_of(text, "mounts") == "mounts /srv:/data:ro user " + file + ":3:10");
  CHECK(line_of(text, "workdir") == "workdir /work default");
  for (const KeyInfo& key : key_infos()) {
    const bool is_by_name = key.path == "env" || key.path == "services" || key.path == "labels";
    if (key.path == "extends" || is_by_name) continue;
    CHECK_MESSAGE(line_of(text, std::string(key.path)) != "(none)", key.path);
  }
}

TEST_CASE("explain: values that look like credentials are hidden, in JSON too") {
  const Host host;
  LoadRequest request = host.request("base");
  for (const char* name :
       {"GITHUB_TOKEN", "aws_secret", "DB_PASSWORD", "OPENAI_API_KEY", "MY_KEY"}) {
    request.overrides.push_back(set_key("env." + std::string(name), "canary"));
  }
  request.overrides.push_back(set_key("env.PLAIN", "seen"));
  const Profile profile = load(request).value();
  CHECK(explain(profile).find("canary") == std::string::npos);
  CHECK(explain_json(profile).find("canary") == std::string::npos);
  CHECK(explain(profile).find("seen") != std::string::npos);
  CHECK(line_of(explain(profile), "env.GITHUB_TOKEN") ==
        "env.GITHUB_TOKEN *** --set env.GITHUB_TOKEN");
}

TEST_CASE("explain: what a profile holds cannot control the terminal") {
  const Host host;
  const auto profile = host.load_text("env: {A: \"\\e[2Jx\\ny\"}\n");
  REQUIRE(profile.ok());
  const std::string text = explain(profile.value());
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("x\\ny") != std::string::npos);
}

TEST_CASE("explain: JSON has numbers, and origins with what is explicit") {
  const Host host;
  host.write("/user/a.yaml", "limits: {memory: 1G, timeout: 1500ms, cpus: 0.5, disk: unlimited}\n");
  LoadRequest request = host.request("a");
  request.overrides = {set_key("env.A", "\xFF")};
  const auto json = nlohmann::json::parse(explain_json(load(request).value()));
  CHECK(json["schema"] == 1);
  CHECK(json["name"] == "a");
  CHECK(json["values"]["limits.memory"] == 1073741824);
  CHECK(json["values"]["limits.timeout"] == 1.5);
  CHECK(json["values"]["limits.cpus"] == 0.5);
  CHECK(json["values"]["limits.disk"].is_null());
  CHECK(json["values"]["nesting"] == false);
  CHECK(json["values"]["env"]["A"].is_string());
  CHECK(json["origins"]["limits.memory"]["explicit"] == true);
  CHECK(json["origins"]["limits.memory"]["layer"] == "user");
  CHECK(json["origins"]["limits.pids"]["explicit"] == false);
}
