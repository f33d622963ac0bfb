// Identity test: what makes a choice of packages another one.
#include "core/packages/identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"

using namespace sbx::packages;
using sbx::profile::HostPath;
using sbx::profile::Profile;

namespace {

struct Dir {
  Dir() : dir(sbx::fs::TempDir::create("/tmp", "sbx-source-").value()) {}
  void file(const std::string& name, const std::string& text) const {
    std::ofstream(dir.path() + "/" + name) << text;
  }
  std::string state() const { return source_state(dir.fd()).value(); }
  sbx::fs::TempDir dir;
};

}  // namespace

TEST_CASE("identity: another archive is another state of the source, another file is not") {
  const Dir source;
  const std::string empty = source.state();
  source.file("notes.txt", "x");
  CHECK(source.state() == empty);
  source.file("a.whl", "1");
  const std::string one = source.state();
  CHECK(one != empty);
  CHECK(source.state() == one);
  source.file("b.tgz", "1");
  CHECK(source.state() != one);
  REQUIRE(::unlink((source.dir.path() + "/b.tgz").c_str()) == 0);
  source.file("a.whl", "12");
  CHECK(source.state() != one);
}

TEST_CASE("identity: the interpreter is the profile's own where it runs that kind") {
  Profile profile;
  profile.language.interpreter = {"python3.11"};
  CHECK(interpreter_word(Kind::kPip, profile.language) == "python3.11");
  CHECK(interpreter_word(Kind::kNpm, profile.language) == "node");
  profile.language.interpreter = {"bash"};
  CHECK(interpreter_word(Kind::kPip, profile.language) == "python3");
}

TEST_CASE("identity: another image or program is another interpreter; none has a fix") {
  Profile profile;
  profile.language.interpreter = {"python3"};
  const auto in_image = interpreter_identity(Kind::kPip, profile, "sha256:1");
  CHECK(in_image.value() != interpreter_identity(Kind::kPip, profile, "sha256:2").value());
  profile.language.path.path = "/bin/sh";
  const std::string shell = interpreter_identity(Kind::kPip, profile, "").value();
  profile.language.path.path = "/bin/cat";
  CHECK(interpreter_identity(Kind::kPip, profile, "").value() != shell);
  profile.language.path.path = "/nonexistent/python3";
  const auto none = interpreter_identity(Kind::kPip, profile, "");
  REQUIRE(!none.ok());
  CHECK(none.error().hint().find("apt-get install") != std::string::npos);
}

TEST_CASE("identity: a fenced source does not lead out of its project through a link") {
  const Dir project;
  REQUIRE(::symlink("/etc", (project.dir.path() + "/link").c_str()) == 0);
  REQUIRE(::mkdir((project.dir.path() + "/wheels").c_str(), 0700) == 0);
  const std::string& dir = project.dir.path();
  CHECK(open_source(HostPath{dir + "/wheels", dir}).ok());
  CHECK(open_source(HostPath{dir, dir}).ok());
  CHECK(!open_source(HostPath{dir + "/link", dir}).ok());
  CHECK(open_source(HostPath{dir + "/link", ""}).ok());
  CHECK(open_source(HostPath{dir + "/none", ""}).error().code() == sbx::Errc::kUsage);
}
