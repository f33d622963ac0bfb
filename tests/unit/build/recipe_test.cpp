// Recipe: what is read, what is refused and where, what settings steps make.
#include "core/build/recipe.h"

#include <string>

#include <doctest/doctest.h>

using namespace sbx;
using build::Recipe;
using build::StepKind;

namespace {

Recipe parse(std::string_view text) {
  auto recipe = build::parse_recipe(text, "r.yaml");
  CAPTURE(std::string(text));
  REQUIRE_MESSAGE(recipe.ok(), (recipe.ok() ? "" : recipe.error().message()));
  return std::move(recipe).value();
}

}  // namespace

TEST_CASE("recipe: every kind of step is read") {
  const Recipe recipe = parse(R"(from: debian:12
profile: base
network: none
mounts: ["./repo:/repo"]
steps:
  - run: apt-get update && apt-get install -y hello
  - run: [/bin/touch, a b]
  - copy: {from: app, to: /opt/app}
  - env: {A: "1", B: two}
  - user: nobody:nogroup
  - workdir: /opt/app
  - entrypoint: [/opt/app/start]
  - cmd: ls -l
  - expose: [80, 53/udp]
  - volume: /data
  - label: {version: "1"}
)");
  CHECK(recipe.from == "debian:12");
  CHECK(recipe.profile == "base");
  CHECK(recipe.mounts == std::vector<std::string>{"./repo:/repo"});
  REQUIRE(recipe.steps.size() == 11);
  CHECK(recipe.steps[0].words ==
        std::vector<std::string>{"/bin/sh", "-c", "apt-get update && apt-get install -y hello"});
  CHECK(recipe.steps[0].line == 6);
  CHECK(recipe.steps[0].to_text() == "run apt-get update && apt-get install -y hello");
  CHECK(recipe.steps[1].words == std::vector<std::string>{"/bin/touch", "a b"});
  CHECK(recipe.steps[2].kind == StepKind::kCopy);
  CHECK(recipe.steps[2].to_text() == "copy app to /opt/app");
  CHECK(recipe.steps[3].pairs.size() == 2);
  CHECK(recipe.steps[7].words == std::vector<std::string>{"/bin/sh", "-c", "ls -l"});
  CHECK(recipe.steps[8].words == std::vector<std::string>{"80", "53/udp"});
}

TEST_CASE("recipe: settings of steps replace and add to those of the base") {
  image::Config config;
  config.env = {"PATH=/bin", "A=0"};
  config.cmd = {"old"};
  config.exposed_ports = {"22/tcp"};
  const Recipe recipe = parse(
      "from: scratch\nsteps:\n"
      "- env: {A: '1', C: ''}\n- entrypoint: [/start]\n- cmd: [x]\n- expose: [80, 22]\n"
      "- volume: [/b, /a]\n- label: {k: v}\n- label: {k: w, a: z}\n- workdir: /w\n- user: '5'\n");
  for (const build::Step& step : recipe.steps) {
    build::apply(step, config);
  }
  CHECK(config.env == std::vector<std::string>{"PATH=/bin", "A=1", "C="});
  CHECK(config.entrypoint == std::vector<std::string>{"/start"});
  CHECK(config.cmd == std::vector<std::string>{"x"});
  CHECK(config.exposed_ports == std::vector<std::string>{"22/tcp", "80/tcp"});
  CHECK(config.volumes == std::vector<std::string>{"/a", "/b"});
  REQUIRE(config.labels.size() == 2);
  CHECK(config.labels[1].second == "w");
  CHECK(config.workdir == "/w");
  CHECK(config.user == "5");
}

TEST_CASE("recipe: a mistake is told with its place") {
  struct Case {
    std::string_view text;
    std::string_view message;
  };
  for (const Case& each : {
           Case{"", "r.yaml"},
           Case{"[]", "a recipe is a map"},
           Case{"steps: []", "key \"from\" is missing"},
           Case{"form: x\nfrom: y", "r.yaml:1:1: unknown key \"form\" (did you mean \"from\"?)"},
           Case{"from: -x", "r.yaml:1:7: from:"},
           Case{"from: x\nnetwork: open", "r.yaml:2:10: network: this version"},
           Case{"from: x\nsteps: run", "r.yaml:2:8: steps: expected a list"},
           Case{"from: x\nsteps: [run]", "a step is a map with one key"},
           Case{"from: x\nsteps: [{run: a, env: {}}]", "a step is a map with one key"},
           Case{"from: x\nsteps: [{rnu: a}]", "unknown step \"rnu\" (did you mean \"run\"?)"},
           Case{"from: x\nsteps: [{run: []}]", "run: nothing to run"},
           Case{"from: x\nsteps: [{run: {}}]", "expected a list of texts"},
           Case{"from: x\nsteps: [{copy: a}]", "expected {from: PATH, to: /PATH}"},
           Case{"from: x\nsteps: [{copy: {from: ../a, to: /a}}]", "below the recipe's directory"},
           Case{"from: x\nsteps: [{copy: {from: /a, to: /a}}]", "below the recipe's directory"},
           Case{"from: x\nsteps: [{copy: {from: a, to: a}}]", "to is an absolute path"},
           Case{"from: x\nsteps: [{copy: {from: a, to: /a/../b}}]", "to is an absolute path"},
           Case{"from: x\nsteps: [{copy: {src: a, to: /b}}]", "copy: unknown key \"src\""},
           Case{"from: x\nsteps: [{env: {'A=B': c}}]", "no name of a variable"},
           Case{"from: x\nsteps: [{env: {A: [b]}}]", "expected a text"},
           Case{"from: x\nsteps: [{workdir: a}]", "workdir: expected an absolute path"},
           Case{"from: x\nsteps: [{volume: [/a, b]}]", "volume: expected an absolute path"},
           Case{"from: x\nsteps: [{expose: [http]}]", "expose: expected PORT"},
           Case{"from: x\nsteps: [{expose: [80/ip]}]", "expose: expected PORT"},
           Case{"from: x\nsteps: [{user: ''}]", "expected a text"},
       }) {
    CAPTURE(std::string(each.text));
    const auto recipe = build::parse_recipe(each.text, "r.yaml");
    REQUIRE(!recipe.ok());
    CHECK(recipe.error().code() == Errc::kUsage);
    CAPTURE(recipe.error().message());
    CHECK(recipe.error().message().find(each.message) != std::string::npos);
  }
}

TEST_CASE("recipe: more steps than an image can have layers are refused") {
  std::string text = "from: x\nsteps:\n";
  for (int i = 0; i < 121; ++i) {
    text += "- run: a\n";
  }
  CHECK(!build::parse_recipe(text, "r.yaml").ok());
}
