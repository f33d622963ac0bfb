// Values_named test: services, labels and session settings: what they take, refuse and become.
#include <string>
#include <vector>

#include "core/profile/saved.h"

#include "tests/unit/profile/support.h"
#include <nlohmann/json.hpp>

using namespace sbx::profile;
using sbx::Millis;
using sbx::profile::test::Host;
using sbx::profile::test::set_key;

namespace {

using Words = std::vector<std::string>;

std::string first_mistake(const Host& host, const std::string& text) {
  const auto found = host.mistakes(text);
  return found.empty() ? "none" : found.front();
}

std::string repeated(int count, const std::string& before, const std::string& after) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += before + std::to_string(i) + after;
  }
  return text;
}

}  // namespace

TEST_CASE("services: command, restart and env are read in the order of first mention") {
  const Host host;
  const auto loaded = host.load_text(
      "services:\n"
      "  web:\n"
      "    command: [python3, -m, http.server, \"8000\"]\n"
      "    restart: always\n"
      "    env: {PORT: 8000, EMPTY: \"\"}\n"
      "  a-1: {command: [sleep, inf]}\n"
      "  c: {command: [x], restart: on-failure}\n"
      "  d: {command: [x], restart: no}\n");
  REQUIRE(loaded.ok());
  const std::vector<Service>& services = loaded.value().services;
  REQUIRE(services.size() == 4);
  CHECK(services[0].name == "web");
  CHECK(services[0].command == Words{"python3", "-m", "http.server", "8000"});
  CHECK(services[0].restart == Restart::kAlways);
  REQUIRE(services[0].env.size() == 2);
  CHECK(services[0].env[0].name == "PORT");
  CHECK(services[0].env[0].value == "8000");
  CHECK(services[0].env[1].value.empty());
  CHECK(services[1].name == "a-1");
  CHECK(services[1].restart == Restart::kNo);
  CHECK(services[2].restart == Restart::kOnFailure);
  CHECK(services[3].restart == Restart::kNo);
}

TEST_CASE("services: each mistake is told at its place") {
  const Host host;
  struct Row {
    const char* text;
    const char* complaint;
  };
  for (const Row& row : {
           Row{"services: {web: {command: a b}}", "1:27: services.web.command: expected a list"},
           Row{"services: {web: {command: a b}}", "write [PROGRAM, ARGUMENT]"},
           Row{"services: {web: [a, b]}",
               "expected a map with command, restart and env, not a list"},
           Row{"services: {web: a}", "write {command: [PROGRAM, ARGUMENT]}"},
           Row{"services: {web: {}}", "a service needs a command"},
           Row{"services: {web: {command: []}}", "a service needs a command"},
           Row{"services: {web: {restart: always}}", "a service needs a command"},
           Row{"services: {web: {command: [\"\"]}}", "the command itself must not be empty"},
           Row{"services: {web: {command: [\"a\\0b\"]}}", "NUL byte"},
           Row{"services: {web: {command: [[a]]}}", "expected a text, not a list"},
           Row{"services: {web: {command: [a], restart: yes}}",
               "services.web.restart: expected no, on-failure or always, not 'yes'"},
           Row{"services: {web: {command: [a], restart: [no]}}", "always, not a list"},
           Row{"services: {web: {command: [a], env: [A=b]}}", "expected a map, NAME: value"},
           Row{"services: {web: {command: [a], env: {1A: b}}}", "'1A' is no variable name"},
           Row{"services: {web: {command: [a], env: {A: }}}", "services.web.env.A: has no value"},
           Row{"services: {web: {command: [a], user: b}}",
               "unknown key 'user'; a service has command, restart and env"},
           Row{"services: {Web: {command: [a]}}", "1:12: services: 'Web' is no service name"},
           Row{"services: {-a: {command: [a]}}", "is no service name"},
           Row{"services: {a/b: {command: [a]}}", "is no service name"},
           Row{"services: {a: {command: [b]}, a: {command: [c]}}", "duplicate key"},
           Row{"services:", "write {} for none"},
           Row{"services: [web]", "expected a map, NAME: {command: [...]}"},
       }) {
    CAPTURE(row.text);
    const std::string found = first_mistake(host, std::string(row.text) + "\n");
    CHECK_MESSAGE(found.find(row.complaint) != std::string::npos, found);
  }
  CHECK(first_mistake(host, "services: {a: {command: [" + repeated(300, "w", ", ") + "w]}}\n")
            .find("more than 256 words") != std::string::npos);
  const std::string many = repeated(32, "  s", ": {command: [a]}\n");
  CHECK(first_mistake(host, "services:\n" + many) == "none");
  CHECK(first_mistake(host, "services:\n" + many + "  t: {command: [a]}\n") ==
        "34:3: services: more than 32 of them");
}

TEST_CASE("services: a later layer replaces one as a whole, adds one, and takes one away") {
  const Host host;
  host.write("/user/a.yaml",
             "services:\n"
             "  one: {command: [x], restart: always, env: {A: b}}\n"
             "  two: {command: [y]}\n"
             "  three: {command: [z]}\n");
  host.write("/user/b.yaml",
             "extends: a\n"
             "services:\n"
             "  two: {command: []}\n"
             "  one: {command: [w]}\n");
  LoadRequest request = host.request("b");
  request.overrides = {set_key("services.four", "{command: [v, -1], restart: on-failure}")};
  const auto loaded = load(request);
  REQUIRE(loaded.ok());
  const Profile& profile = loaded.value();
  REQUIRE(profile.services.size() == 3);
  CHECK(profile.services[0].name == "one");
  CHECK(profile.services[0].command == Words{"w"});
  CHECK(profile.services[0].restart == Restart::kNo);
  CHECK(profile.services[0].env.empty());
  CHECK(profile.services[1].name == "three");
  CHECK(profile.services[2].command == Words{"v", "-1"});
  CHECK(profile.services[2].restart == Restart::kOnFailure);
  CHECK(profile.origins.at("services.one").where == host.path("/user/b.yaml") + ":4:3");
  CHECK(profile.origins.at("services.four").layer == Layer::kFlag);
}

TEST_CASE("services: flags take a map in flow form and say what they expect") {
  const Host host;
  const auto mistake = [&](const Override& override) {
    LoadRequest request = host.request("base");
    request.overrides = {override};
    const auto found = check(request);
    REQUIRE(found.ok());
    return found.value().empty() ? std::string("none") : found.value()[0].to_string();
  };
  CHECK(mistake(set_key("services", "{a: {command: [b]}}")) == "none");
  CHECK(mistake(set_key("services.a", " {command: [b]} ")) == "none");
  CHECK(mistake(set_key("services.a", "b")).find("{command: [PROGRAM, ARGUMENT]}") !=
        std::string::npos);
  CHECK(mistake(set_key("services.a", "{command: [b}")).starts_with("--set services.a: "));
  CHECK(mistake(set_key("services", "b")).find("services.NAME={command:") != std::string::npos);
  CHECK(mistake(set_key("labels", "b")).find("labels.NAME=VALUE") != std::string::npos);
  CHECK(mistake(set_key("labels.", "b")).find("is no label name") != std::string::npos);
  CHECK(mistake(set_key("session", "1h")).find("session.KEY=VALUE") != std::string::npos);
}

TEST_CASE("labels: texts by name, merged by name, bounded") {
  const Host host;
  host.write("/user/a.yaml", "labels: {team: core, build: 010}\n");
  LoadRequest request = host.request("a");
  request.overrides = {set_key("labels.example.com/x", "a: [b"), set_key("labels.team", "")};
  const auto loaded = load(request);
  REQUIRE(loaded.ok());
  CHECK(loaded.value().labels ==
        Labels{{"build", "010"}, {"example.com/x", "a: [b"}, {"team", ""}});
  CHECK(loaded.value().origins.at("labels.build").where == host.path("/user/a.yaml") + ":1:22");
  struct Row {
    std::string text;
    const char* complaint;
  };
  for (const Row& row : {
           Row{"labels: {a b: c}", "'a b' is no label name"},
           Row{"labels: {.a: c}", "is no label name"},
           Row{"labels: {a: \"x\\ny\"}", "labels.a: must be one line"},
           Row{"labels: {a: \"\\e[1m\"}", "must be one line of plain text"},
           Row{"labels: {a: " + std::string(1025, 'x') + "}", "longer than 1024 bytes"},
           Row{"labels: {" + std::string(129, 'x') + ": a}", "at most 128"},
           Row{"labels: {a: [b]}", "expected a text, not a list"},
           Row{"labels: {a: ~}", "write \"\" for an empty one"},
           Row{"labels: [a]", "expected a map, NAME: value"},
           Row{"labels: {" + repeated(65, "l", ": x, ") + "}", "labels: more than 64 of them"},
       }) {
    CAPTURE(row.text);
    const std::string found = first_mistake(host, row.text + "\n");
    CHECK_MESSAGE(found.find(row.complaint) != std::string::npos, found);
  }
}

TEST_CASE("session: durations from one second on, unlimited takes one away") {
  const Host host;
  host.write("/user/a.yaml", "session: {idle_pause: 30m, ttl: 7d}\n");
  const auto loaded = load(host.request("a"));
  REQUIRE(loaded.ok());
  CHECK(loaded.value().session.idle_pause == Millis{1800000});
  CHECK(loaded.value().session.ttl == Millis{7L * 24 * 3600 * 1000});
  LoadRequest request = host.request("a");
  request.overrides = {set_key("session.ttl", "unlimited")};
  CHECK(!load(request).value().session.ttl.has_value());
  CHECK(first_mistake(host, "session: {ttl: 10ms}\n").find("the least is 1s") != std::string::npos);
  CHECK(first_mistake(host, "session: {idle_pause: 5}\n").find("has no unit") != std::string::npos);
  CHECK(first_mistake(host, "session: 5m\n").find("expected keys below it") != std::string::npos);
  CHECK(first_mistake(host, "session: {idle: 5m}\n").find("known: idle_pause, ttl") !=
        std::string::npos);
}

TEST_CASE("explain: services and labels have a line each, credentials of services are hidden") {
  const Host host;
  host.write(
      "/user/a.yaml",
      "labels: {team: core}\n"
      "services: {web: {command: [a, b c], restart: always, env: {API_KEY: canary, P: 1}}}\n");
  const Profile profile = load(host.request("a")).value();
  const std::string text = explain(profile);
  CHECK(text.find("services.web") != std::string::npos);
  CHECK(text.find("[a, b c], restart always, with API_KEY P") != std::string::npos);
  CHECK(text.find("labels.team") != std::string::npos);
  CHECK(text.find("canary") == std::string::npos);
  const std::string json_text = explain_json(profile);
  CHECK(json_text.find("canary") == std::string::npos);
  const auto json = nlohmann::json::parse(json_text);
  CHECK(json["values"]["services"]["web"]["command"][1] == "b c");
  CHECK(json["values"]["services"]["web"]["restart"] == "always");
  CHECK(json["values"]["services"]["web"]["env"]["P"] == "1");
  CHECK(json["values"]["labels"]["team"] == "core");
  CHECK(json["values"]["session.ttl"].is_null());
}

TEST_CASE("saved: services, labels and session settings come back as they were") {
  const Host host;
  host.write("/user/a.yaml",
             "labels: {team: core, b: \"\"}\nsession: {ttl: 7d}\n"
             "services: {web: {command: [a, b c], restart: on-failure, env: {P: 1}},\n"
             "           db: {command: [x]}}\n");
  const Profile profile = load(host.request("a")).value();
  const std::string saved = save(profile);
  const auto back = restore(saved);
  REQUIRE(back.ok());
  CHECK(save(back.value()) == saved);
  REQUIRE(back.value().services.size() == 2);
  CHECK(back.value().services[0].command == Words{"a", "b c"});
  CHECK(back.value().services[0].restart == Restart::kOnFailure);
  CHECK(back.value().services[0].env.at(0).value == "1");
  CHECK(back.value().labels == Labels{{"b", ""}, {"team", "core"}});
  CHECK(back.value().session.ttl == profile.session.ttl);
  std::string broken = saved;
  broken.replace(broken.find("on-failure"), 10, "sometimes!");
  CHECK(!restore(broken).ok());
}
