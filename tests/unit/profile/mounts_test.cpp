// Mounts test: spellings, resolving, and the fence around a project.
#include "core/profile/mounts.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::profile::test::add_to;
using sbx::profile::test::Host;

namespace {

/// "SOURCE|TARGET|MODE" or "error: …".
std::string split(std::string_view text) {
  const auto mount = split_mount(text);
  if (!mount.ok()) return "error: " + mount.error().message();
  return mount.value().source + "|" + mount.value().target + "|" + mount.value().mode;
}

std::string made(const std::string& source, const std::string& target) {
  const auto mount = make_mount({source, target, "ro"}, {"/base", "/home/u", ""});
  if (!mount.ok()) return "error: " + mount.error().message();
  return mount.value().source + "|" + mount.value().target;
}

}  // namespace

TEST_CASE("mounts: short and keyed spellings") {
  CHECK(split("/a:/b") == "/a|/b|ro");
  CHECK(split("/a:/b:rw") == "/a|/b|rw");
  CHECK(split("src=/a,dst=/b") == "/a|/b|ro");
  CHECK(split("dst=/b,mode=rw,src=/a") == "/a|/b|rw");
  CHECK(split("src=/a:b,c d,dst=/x") == "/a:b,c d|/x|ro");
  CHECK(split("src=/a,b=c,dst=/x") == "/a,b=c|/x|ro");
  for (const char* bad : {"", "/a", "a:b:c:d", "src=/a", "dst=/b", "src=/a,src=/b,dst=/c"}) {
    CAPTURE(bad);
    CHECK(split(bad).find("expected SRC:DST") != std::string::npos);
  }
}

TEST_CASE("mounts: sources are resolved, targets normalised and kept off the sandbox's own") {
  CHECK(made("/x//y/", "/a//b/./") == "/x/y|/a/b");
  CHECK(made("x", "/a") == "/base/x|/a");
  CHECK(made("./x", "/a") == "/base/x|/a");
  CHECK(made("../x", "/a") == "/base/../x|/a");
  CHECK(made("~", "/a") == "/home/u|/a");
  CHECK(made("~/x", "/work/x") == "/home/u/x|/work/x");
  CHECK(made("~x", "/a") == "/base/~x|/a");
  CHECK(made("caf\xC3\xA9 (1)\xFF", "/d") == "/base/caf\xC3\xA9 (1)\xFF|/d");
  for (const char* target : {"",
                             "a",
                             "/",
                             "//",
                             "/a/../b",
                             "/proc",
                             "/proc/self",
                             "/sys/fs",
                             "/dev/x",
                             "/work",
                             "/work/",
                             "/tmp",
                             "/etc",
                             "/usr",
                             "/home/sbx",
                             "/run/sbx/x"}) {
    CAPTURE(target);
    CHECK(made("/x", target).starts_with("error: target"));
  }
  CHECK(made("", "/a") == "error: the source must not be empty");
  CHECK(made(std::string("a\0b", 3), "/a") == "error: the source must not hold a NUL byte");
}

TEST_CASE("mounts: modes") {
  const auto mode = [](const char* text) {
    const auto mount = make_mount({"/a", "/b", text}, {"/", "", ""});
    return mount.ok() ? std::string("ok") : mount.error().message();
  };
  CHECK(mode("ro") == "ok");
  CHECK(mode("rw") == "ok");
  CHECK(mode("overlay") == "ok");
  CHECK(mode("RW").find("expected ro, rw or overlay") != std::string::npos);
}

TEST_CASE("mounts: a project's profile mounts its own directory only") {
  const Host host;
  REQUIRE(sbx::fs::mkdirs(host.path("/project/data/deep"), 0700).ok());
  REQUIRE(symlink("/etc", host.path("/project/out").c_str()) == 0);
  REQUIRE(symlink("data/deep", host.path("/project/in").c_str()) == 0);
  REQUIRE(symlink("../home", host.path("/project/up").c_str()) == 0);
  const std::string project = host.path("/project");

  for (const std::string& source : {std::string("data"),
                                    std::string("./data"),
                                    std::string("."),
                                    std::string("in"),
                                    project + "/data",
                                    std::string("not-yet-there")}) {
    CAPTURE(source);
    const auto profile = host.load_text("mounts: ['" + source + ":/m']\n");
    REQUIRE(profile.ok());
    CHECK(profile.value().mounts.at(0).beneath == project);
    CHECK(profile.value().mounts.at(0).source.starts_with(project));
  }
  for (const std::string& source : {std::string("/etc"),
                                    std::string(".."),
                                    std::string("data/../.."),
                                    std::string("~"),
                                    std::string("~/x"),
                                    std::string("out"),
                                    std::string("out/passwd"),
                                    std::string("up"),
                                    project + "x",
                                    host.path("/home")}) {
    CAPTURE(source);
    const std::string text = "mounts: ['" + source + ":/m']\n";
    const auto found = host.mistakes(text);
    REQUIRE(found.size() == 1);
    const bool is_refused =
        found[0].find("outside the profile's own directory") != std::string::npos ||
        found[0].find("leads out of the project") != std::string::npos;
    CHECK_MESSAGE(is_refused, found[0]);
    LoadRequest request = host.request(host.path("/project/t.yaml"));
    request.allow_outside = true;
    CHECK(load(request).ok());
  }
}

TEST_CASE("mounts: a profile in the home directory or at / is in no project") {
  const Host host;
  host.write("/home/x.yaml", "mounts: ['.ssh:/s']\n");
  const auto failed = load(host.request(host.path("/home/x.yaml")));
  REQUIRE(!failed.ok());
  CHECK(failed.error().message().find("--allow-outside") != std::string::npos);
}

TEST_CASE("mounts: flags may mount anything, relative to the current directory") {
  const Host host;
  REQUIRE(chdir(host.path("/home").c_str()) == 0);
  LoadRequest request = host.request("base");
  request.overrides = {add_to("mounts", "x:/x"), add_to("mounts", "/etc:/e:rw")};
  const auto profile = load(request);
  REQUIRE(chdir("/") == 0);
  REQUIRE(profile.ok());
  CHECK(profile.value().mounts.at(0).source == host.path("/home/x"));
  CHECK(profile.value().mounts.at(0).beneath.empty());
}

TEST_CASE("mounts: sbx's own directories are not shown inside, also not through a link") {
  const Host host;
  REQUIRE(symlink(host.path("/state").c_str(), host.path("/home/link").c_str()) == 0);
  LoadRequest request = host.request("base");
  request.private_dirs = {host.path("/state"), ""};
  for (const std::string& source : {host.path("/state"),
                                    host.path("/state/sub"),
                                    host.path(""),
                                    std::string("/"),
                                    host.path("/home/link"),
                                    host.path("/home/../state")}) {
    CAPTURE(source);
    request.overrides = {add_to("mounts", source + ":/m")};
    const auto failed = load(request);
    REQUIRE(!failed.ok());
    CHECK(failed.error().message().starts_with("--mounts: '"));
    CHECK(failed.error().message().find("sbx's own directory") != std::string::npos);
  }
  request.overrides = {add_to("mounts", host.path("/home") + ":/m"),
                       add_to("mounts", host.path("/statement") + ":/n")};
  CHECK(load(request).ok());
}

TEST_CASE("mounts: nothing of the host's /proc is a source, also not through a link") {
  const Host host;
  REQUIRE(symlink("/proc/self/fd", host.path("/home/link").c_str()) == 0);
  LoadRequest request = host.request("base");
  for (const std::string& source : {std::string("/proc"),
                                    std::string("/proc/cpuinfo"),
                                    std::string("/proc/self/fd"),
                                    std::string("/usr/../proc/sys"),
                                    host.path("/home/link")}) {
    CAPTURE(source);
    request.overrides = {add_to("mounts", source + ":/m")};
    const auto failed = load(request);
    REQUIRE(!failed.ok());
    CHECK(failed.error().message().find("is in the host's /proc") != std::string::npos);
  }
}

TEST_CASE("mounts: a project may take harmless variables only") {
  const Host host;
  CHECK(host.load_text("env_pass: [LANG, LC_ALL, TERM, TZ]").ok());
  const auto failed = host.load_text("env_pass: [AWS_SECRET_ACCESS_KEY]");
  REQUIRE(!failed.ok());
  CHECK(failed.error().message().find("--allow-outside") != std::string::npos);
  host.write("/user/a.yaml", "env_pass: [AWS_SECRET_ACCESS_KEY]\n");
  CHECK(load(host.request("a")).ok());
}
