// Add test: what is refused before anything is made.
#include "core/packages/add.h"

#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"

using namespace sbx;
using profile::Profile;

namespace {

/// A profile for Python in a state directory of its own, whose interpreter is one that is there
/// anyway: nothing is started.
struct Job {
  Job() : dir(fs::TempDir::create("/tmp", "sbx-add-").value()) {
    for (const char* each : {"/user", "/system", "/state", "/source"}) {
      REQUIRE(fs::mkdirs(dir.path() + each, 0700).ok());
    }
    profile.name = "t";
    profile.language.interpreter = {"python3"};
    profile.language.path.path = "/bin/sh";
    context.load.state_dir = dir.path() + "/state";
    context.load.dirs = profile::SearchDirs{dir.path() + "/user", dir.path() + "/system"};
  }
  Error refusal(const std::vector<std::string>& wanted = {},
                run::PackagesMode mode = run::PackagesMode::kMake) {
    Profile copy = profile;
    const auto added = packages::hook(context)(copy, wanted, mode);
    REQUIRE(!added.ok());
    return added.error();
  }
  void write(const std::string& rel, const std::string& text) const {
    std::ofstream(dir.path() + rel) << text;
  }

  fs::TempDir dir;
  Profile profile;
  packages::Context context;
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("add: without a source the message says how to fill one") {
  Job job;
  const Error error = job.refusal({"six==1.16"});
  CHECK(error.code() == Errc::kUsage);
  CHECK(has(error.message(), "no packages.source"));
  CHECK(has(error.hint(), "pip download -d DIR 'six==1.16'"));
  CHECK(has(error.hint(), "packages.source=DIR"));
  job.profile.language.interpreter = {"node"};
  CHECK(has(job.refusal({"left-pad"}).hint(), "npm pack"));
}

TEST_CASE("add: without a state directory there is no place for packages") {
  Job job;
  job.context.load.state_dir.clear();
  CHECK(job.refusal({"six"}).code() == Errc::kUnsupported);
}

TEST_CASE("add: the policy of base.yaml holds whatever the profile says") {
  Job job;
  job.write("/user/base.yaml", "packages:\n  deny: [six]\n");
  job.profile.packages.allow = {"*"};
  const Error error = job.refusal({"Six"});
  CHECK(error.code() == Errc::kDenied);
  CHECK(has(error.message(), "package Six is refused by packages.deny of "));
  CHECK(has(error.message(), "/user/base.yaml"));
}

TEST_CASE("add: a profile's own allow list leaves nothing else") {
  Job job;
  job.profile.packages.allow = {"numpy"};
  CHECK(has(job.refusal({"six"}).message(), "is not in packages.allow of profile t"));
}

TEST_CASE("add: frozen needs a lock file, whole and for the same packages") {
  Job job;
  job.profile.packages.frozen = true;
  CHECK(has(job.refusal({"six"}).message(), "packages.frozen needs packages.lock"));
  job.profile.packages.lock.path = job.dir.path() + "/sbx.lock";
  CHECK(has(job.refusal({"six"}).message(), "packages.lock "));
  job.write("/sbx.lock", "rubbish");
  CHECK(has(job.refusal({"six"}).message(), "is no lock file of packages"));
  job.write("/sbx.lock", R"({"format":1,"pip":{"wants":["other"],"packages":[]}})");
  CHECK(has(job.refusal({"six"}).message(), "was written for other pip packages"));
}

TEST_CASE("add: a lock file's packages pass the policy as well") {
  Job job;
  job.profile.packages.lock.path = job.dir.path() + "/sbx.lock";
  job.profile.packages.deny = {"evil"};
  const std::string digest(64, 'a');
  job.write("/sbx.lock",
            R"({"format":1,"pip":{"wants":["six"],"packages":[{"name":"evil","version":"1",)"
            R"("file":"e.whl","digest":"sha256:)" +
                digest + R"("}]}})");
  CHECK(has(job.refusal({"six"}).message(), "package evil is refused"));
}

TEST_CASE("add: looking only makes nothing and is no error") {
  Job job;
  job.profile.packages.source.path = job.dir.path() + "/source";
  Profile copy = job.profile;
  std::string said;
  job.context.notice = [&said](std::string_view text) { said += text; };
  const auto added = packages::hook(job.context)(copy, {"six"}, run::PackagesMode::kLookOnly);
  REQUIRE_MESSAGE(added.ok(), added.error().to_string());
  CHECK(added.value().pip.empty());
  CHECK(copy.mounts.empty());
  CHECK(has(said, "six would be installed first"));
}
