// Trust test: a project's profile by name, as long as it is what was approved.
#include <string>

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::Errc;
using sbx::profile::test::Host;
using sbx::profile::test::read_text;

TEST_CASE("trust: a trusted profile loads by name until one byte of it changes") {
  const Host host;
  host.write("/project/ci.yaml", "limits:\n  pids: 12\n");
  const LoadRequest request = host.request("ci");
  CHECK(load(request).error().code() == Errc::kNotFound);

  const auto name = trust(request, host.path("/project/ci.yaml"));
  REQUIRE(name.ok());
  CHECK(name.value() == "ci");
  const auto loaded = load(request);
  REQUIRE(loaded.ok());
  CHECK(loaded.value().limits.pids == 12);
  CHECK(loaded.value().name == "ci");
  CHECK(loaded.value().is_explicit("limits.pids"));

  host.write("/project/ci.yaml", "limits:\n  pids: 13\n");
  const auto changed = load(request);
  REQUIRE(!changed.ok());
  CHECK(changed.error().code() == Errc::kDenied);
  CHECK(changed.error().message().find("has changed since") != std::string::npos);
  CHECK(changed.error().hint().find("sbx profile trust") != std::string::npos);

  REQUIRE(trust(request, host.path("/project/ci.yaml")).ok());
  CHECK(load(request).value().limits.pids == 13);
  REQUIRE(untrust(request, "ci").ok());
  CHECK(load(request).error().code() == Errc::kNotFound);
  CHECK(untrust(request, "ci").error().code() == Errc::kNotFound);
  CHECK(untrust(request, "../ci").error().code() == Errc::kNotFound);
}

TEST_CASE("trust: even then it mounts nothing outside its directory without the flag") {
  const Host host;
  host.write("/project/ci.yaml", "mounts: [/etc:/e]\n");
  LoadRequest request = host.request("ci");
  const auto refused = trust(request, host.path("/project/ci.yaml"));
  REQUIRE(!refused.ok());
  CHECK(refused.error().message().find("--allow-outside") != std::string::npos);
  request.allow_outside = true;
  REQUIRE(trust(request, host.path("/project/ci.yaml")).ok());
  CHECK(load(request).ok());
  request.allow_outside = false;
  CHECK(!load(request).ok());
}

TEST_CASE("trust: shipped, user's and system's names are taken") {
  const Host host;
  host.write("/project/python.yaml", "nesting: true\n");
  host.write("/project/mine.yaml", "nesting: true\n");
  host.write("/project/site.yaml", "nesting: true\n");
  host.write("/user/mine.yaml", "nesting: false\n");
  host.write("/system/site.yaml", "nesting: false\n");
  for (const char* name : {"python", "mine", "site"}) {
    CAPTURE(name);
    const auto refused = trust(host.request("x"), host.path("/project/") + name + ".yaml");
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == Errc::kExists);
  }
}

TEST_CASE("trust: a name that comes to exist later wins over the trusted one") {
  const Host host;
  host.write("/project/ci.yaml", "limits:\n  pids: 12\n");
  REQUIRE(trust(host.request("x"), host.path("/project/ci.yaml")).ok());
  host.write("/user/ci.yaml", "limits:\n  pids: 99\n");
  CHECK(load(host.request("ci")).value().limits.pids == 99);
}

TEST_CASE("trust: files with mistakes, odd names and the user's own files are refused") {
  const Host host;
  host.write("/project/bad.yaml", "nesting: yes\n");
  host.write("/project/a b.yaml", "nesting: true\n");
  host.write("/user/own.yaml", "nesting: true\n");
  for (const char* path : {"/project/bad.yaml", "/project/a b.yaml", "/user/own.yaml"}) {
    CAPTURE(path);
    CHECK(trust(host.request("x"), host.path(path)).error().code() == Errc::kUsage);
  }
  CHECK(trust(host.request("x"), host.path("/project/none.yaml")).error().code() ==
        Errc::kNotFound);
}

TEST_CASE("trust: a damaged or newer record is refused, not guessed at") {
  const Host host;
  host.write("/project/ci.yaml", "nesting: true\n");
  REQUIRE(trust(host.request("x"), host.path("/project/ci.yaml")).ok());
  const std::string good = read_text(host.path("/state/trust/ci.json"));
  for (const std::string& text : {std::string("{"),
                                  std::string(""),
                                  std::string("[]"),
                                  std::string("{\"format\":1}"),
                                  std::string("{\"format\":2}"),
                                  good.substr(0, good.size() / 2)}) {
    CAPTURE(text);
    host.write("/state/trust/ci.json", text);
    const auto failed = load(host.request("ci"));
    REQUIRE(!failed.ok());
    CHECK(failed.error().code() == Errc::kProtocol);
  }
  host.write("/state/trust/ci.json", good);
  CHECK(load(host.request("ci")).ok());
}

TEST_CASE("trust: a trusted profile is no base for others") {
  const Host host;
  host.write("/project/ci.yaml", "nesting: true\n");
  REQUIRE(trust(host.request("x"), host.path("/project/ci.yaml")).ok());
  host.write("/user/mine.yaml", "extends: ci\n");
  CHECK(!load(host.request("mine")).ok());
}
