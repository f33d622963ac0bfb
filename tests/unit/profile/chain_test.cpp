// Chain test: `extends`, what is found under a name, and in which order.
#include <string>

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::Errc;
using sbx::profile::test::Host;

TEST_CASE("chain: a profile without extends starts from the shipped base") {
  const Host host;
  const auto profile = host.load_text("limits:\n  pids: 5\n");
  REQUIRE(profile.ok());
  CHECK(profile.value().limits.pids == 5);
  CHECK(profile.value().limits.memory == sbx::Bytes{512UL << 20U});
  CHECK(profile.value().is_explicit("limits.pids"));
  CHECK(!profile.value().is_explicit("limits.memory"));
}

TEST_CASE("chain: names are looked for with the user, then the system, then the shipped ones") {
  const Host host;
  const auto pids = [&] {
    const auto profile = load(host.request("python"));
    return profile.ok() ? profile.value().limits.pids.value_or(0) : 0;
  };
  CHECK(pids() == 256);
  host.write("/system/python.yaml", "limits:\n  pids: 10\n");
  CHECK(pids() == 10);
  host.write("/user/python.yaml", "limits:\n  pids: 20\n");
  CHECK(pids() == 20);
}

TEST_CASE("chain: a profile may extend the one that it hides") {
  const Host host;
  host.write("/system/python.yaml", "extends: python\nlimits:\n  pids: 10\n");
  host.write("/user/python.yaml", "extends: python\nlimits:\n  memory: 2G\n");
  const auto profile = load(host.request("python"));
  REQUIRE(profile.ok());
  CHECK(profile.value().limits.pids == 10);
  CHECK(profile.value().limits.memory == sbx::Bytes{2UL << 30U});
  CHECK(profile.value().language.interpreter == std::vector<std::string>{"python3"});
}

TEST_CASE("chain: extends: base is the user's base, no extends is the shipped one") {
  const Host host;
  host.write("/user/base.yaml", "limits:\n  pids: 9\n");
  host.write("/user/a.yaml", "extends: base\n");
  host.write("/user/b.yaml", "description: x\n");
  const auto a = load(host.request("a"));
  const auto b = load(host.request("b"));
  REQUIRE(a.ok());
  REQUIRE(b.ok());
  CHECK(a.value().limits.pids == 9);
  CHECK(b.value().limits.pids == 256);
}

TEST_CASE(
    "chain: a project's profile extends shipped profiles only, unless the flag allows others") {
  const Host host;
  host.write("/user/private.yaml", "env: {DEPLOY_TOKEN: x}\n");
  host.write("/user/python.yaml", "limits: {pids: 3}\n");
  host.write("/project/a.yaml", "extends: private\n");
  host.write("/project/b.yaml", "extends: python\n");
  LoadRequest a = host.request(host.path("/project/a.yaml"));
  LoadRequest b = host.request(host.path("/project/b.yaml"));
  const auto refused = load(a);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message().find("private is not a shipped profile") != std::string::npos);
  CHECK(load(b).value().limits.pids == 256);
  a.allow_outside = true;
  b.allow_outside = true;
  CHECK(load(a).value().env.size() == 1);
  CHECK(load(b).value().limits.pids == 3);
}

TEST_CASE("chain: circles, unknown names, paths and endless rows are told at extends") {
  const Host host;
  host.write("/user/a.yaml", "extends: b\n");
  host.write("/user/b.yaml", "description: x\nextends: c\n");
  host.write("/user/c.yaml", "extends: a\n");
  const auto circle = load(host.request("a"));
  REQUIRE(!circle.ok());
  CHECK(circle.error().message() ==
        host.path("/user/c.yaml") + ":1:10: extends: a extends this profile in turn: a circle");

  for (int i = 0; i < 12; ++i) {
    host.write("/user/n" + std::to_string(i) + ".yaml",
               "extends: n" + std::to_string(i + 1) + "\n");
  }
  const auto row = load(host.request("n0"));
  REQUIRE(!row.ok());
  CHECK(row.error().message().find("n7.yaml:1:10: extends: more than 8 profiles in a row") !=
        std::string::npos);

  const auto mistake = [&](const std::string& text) {
    const auto found = host.mistakes(text);
    return found.empty() ? std::string("none") : found[0];
  };
  CHECK(mistake("extends: nodee\n") ==
        "1:10: extends: there is no profile \"nodee\" (did you mean node?)");
  CHECK(mistake("extends: ../base\n").find("is a path") != std::string::npos);
  CHECK(mistake("extends: /etc/passwd\n").find("is a path") != std::string::npos);
  CHECK(mistake("extends: [base]\n").find("the name of one profile") != std::string::npos);
  CHECK(mistake("extends:\n") == "1:1: extends: expected the name of one profile");
  CHECK(mistake("extends: ''\n").find("must not be empty") != std::string::npos);
  CHECK(mistake("extends: -x\n").find("is no profile name") != std::string::npos);
}

TEST_CASE("chain: a mistake in an extended profile is told with that file") {
  const Host host;
  host.write("/user/a.yaml", "nesting: 1\n");
  host.write("/user/b.yaml", "extends: a\nhostname: '!'\n");
  const auto found = check(host.request("b"));
  REQUIRE(found.ok());
  REQUIRE(found.value().size() == 2);
  CHECK(found.value()[0].file == host.path("/user/a.yaml"));
  CHECK(found.value()[1].file == host.path("/user/b.yaml"));
}

TEST_CASE("chain: a project's file is found by path only and cannot stand in for a name") {
  const Host host;
  host.write("/project/python.yaml", "extends: python\nlimits:\n  pids: 3\n");
  REQUIRE(chdir(host.path("/project").c_str()) == 0);
  const auto by_name = load(host.request("python"));
  REQUIRE(by_name.ok());
  CHECK(by_name.value().limits.pids == 256);
  for (const char* path : {"./python.yaml", "python.yaml"}) {
    const auto by_path = load(host.request(path));
    REQUIRE(by_path.ok());
    CHECK(by_path.value().limits.pids == 3);
    CHECK(by_path.value().name == "python");
    CHECK(by_path.value().file == path);
  }
  host.write("/project/mine.yaml", "nesting: true\n");
  const auto unknown = load(host.request("mine"));
  REQUIRE(!unknown.ok());
  CHECK(unknown.error().code() == Errc::kNotFound);
  CHECK(unknown.error().hint().find("./mine.yaml") != std::string::npos);
  REQUIRE(chdir("/") == 0);
}

TEST_CASE("chain: unknown and impossible names are told with a hint") {
  const Host host;
  host.write("/user/reports.yaml", "nesting: false\n");
  const auto typo = load(host.request("report"));
  REQUIRE(!typo.ok());
  CHECK(typo.error().code() == Errc::kNotFound);
  CHECK(typo.error().hint() == "did you mean reports?");
  for (const char* name : {"", "a b", "-p", ".hidden", "caf\xC3\xA9", "a\nb"}) {
    CAPTURE(name);
    const auto bad = load(host.request(name));
    REQUIRE(!bad.ok());
    CHECK(bad.error().code() == Errc::kUsage);
    CHECK(bad.error().message().find('\n') == std::string::npos);
  }
  const auto missing = load(host.request("./none.yaml"));
  REQUIRE(!missing.ok());
  CHECK(missing.error().code() == Errc::kNotFound);
  CHECK(missing.error().message().find("./none.yaml") != std::string::npos);
  const auto directory = load(host.request(host.path("/user/")));
  REQUIRE(!directory.ok());
  CHECK(directory.error().message().find("is a directory") != std::string::npos);
  const auto device = load(host.request("/dev/zero"));
  REQUIRE(!device.ok());
  CHECK(device.error().message().find("is no regular file") != std::string::npos);
}

TEST_CASE("chain: a FIFO among the user's profiles does not hang, a directory is an error") {
  const Host host;
  REQUIRE(mkfifo(host.path("/user/pipe.yaml").c_str(), 0600) == 0);
  const auto fifo = load(host.request("pipe"));
  REQUIRE(!fifo.ok());
  CHECK(fifo.error().message().find("is no regular file") != std::string::npos);
  REQUIRE(mkdir(host.path("/user/dir.yaml").c_str(), 0700) == 0);
  CHECK(!load(host.request("dir")).ok());
}

TEST_CASE("chain: directories that are missing or named oddly do not matter") {
  Host host;
  sbx::profile::LoadRequest request = host.request("python");
  request.dirs = SearchDirs{"/nonexistent/profiles", "/dev/null/profiles"};
  CHECK(load(request).ok());
  request.dirs = SearchDirs{"", ""};
  CHECK(load(request).ok());

  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  CHECK(search_dirs(none).system == "/etc/sbx/profiles");  // HOME unset: the password file
  host.set_env("XDG_CONFIG_HOME", "relative");
  CHECK(search_dirs(host.request("x").env).user == host.path("/home/.config/sbx/profiles"));
  host.set_env("XDG_CONFIG_HOME", "/xdg");
  CHECK(search_dirs(host.request("x").env).user == "/xdg/sbx/profiles");
}

TEST_CASE("chain: a path into the user's own directory is no project") {
  const Host host;
  host.write("/user/mine.yaml", "mounts: [/srv:/srv]\nenv_pass: [HOME]\n");
  const auto profile = load(host.request(host.path("/user/mine.yaml")));
  REQUIRE(profile.ok());
  CHECK(profile.value().mounts.at(0).beneath.empty());
}

TEST_CASE("chain: SBX_PROFILE counts when no profile is named, the fallback after it") {
  Host host;
  LoadRequest request = host.request("x");
  request.name_or_path.reset();
  request.fallback = "bash";
  REQUIRE(load(request).ok());
  CHECK(load(request).value().name == "bash");
  host.set_env("SBX_PROFILE", "node");
  request.env = host.request("x").env;
  CHECK(load(request).value().name == "node");
  request.name_or_path = "python";
  CHECK(load(request).value().name == "python");
}
