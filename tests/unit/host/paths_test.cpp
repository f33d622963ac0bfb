#include "core/host/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <string>

#include <doctest/doctest.h>

#include "core/base/fs.h"

namespace sbx::host {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

/// A small host below a temporary directory, where everything belongs to whoever runs the test, who
/// is told to be user `uid`.
class FakeHost {
 public:
  FakeHost() : dir_(fs::TempDir::create("/tmp", "sbx-unit-paths-")) {
    REQUIRE(dir_.ok());
    context_.env = [this](std::string_view name) -> std::optional<std::string> {
      const auto it = variables.find(name);
      if (it == variables.end()) return std::nullopt;
      return it->second;
    };
    context_.passwd_file = at("passwd");
    context_.system_state = at("var/lib/sbx");
    context_.system_run = at("run/sbx");
  }

  std::string at(const std::string& name) const { return dir_.value().path() + "/" + name; }
  void passwd(const std::string& home) const {
    const std::string line = "me:x:" + std::to_string(::geteuid()) + ":0::" + home + ":/bin/sh\n";
    REQUIRE(fs::write_atomic(dir_.value().fd(), "passwd", line, 0644).ok());
  }
  void dir(const std::string& name, mode_t mode) const {
    REQUIRE(fs::mkdirs(at(name), 0755).ok());
    REQUIRE(::chmod(at(name).c_str(), mode) == 0);
  }
  const PathContext& context() const { return context_; }
  PathContext& context() { return context_; }

  Variables variables;

 private:
  Result<fs::TempDir> dir_;
  PathContext context_;
};

std::string path_of(const Result<Dir>& dir) {
  return dir.ok() ? dir.value().path : "error: " + dir.error().to_string();
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_mode & 0777U : 0;
}

}  // namespace

TEST_CASE("paths: a state directory is only looked for, not made, where nothing is to be kept") {
  FakeHost host;
  host.context().is_root = false;
  host.variables["HOME"] = host.at("home");
  CHECK_FALSE(existing_state_dir(host.context()).has_value());
  CHECK_FALSE(fs::open_dir(host.at("home")).ok());
  host.dir("home/.local/state/sbx", 0700);
  CHECK(existing_state_dir(host.context()) == host.at("home/.local/state/sbx"));
  host.variables["SBX_STATE_DIR"] = host.at("other");
  CHECK_FALSE(existing_state_dir(host.context()).has_value());
}

TEST_CASE("paths: SBX_STATE_DIR wins, is made private, and must be absolute") {
  FakeHost host;
  host.variables["SBX_STATE_DIR"] = host.at("a/b/state/");
  host.variables["XDG_STATE_HOME"] = host.at("xdg");
  CHECK(path_of(open_state_dir(host.context())) == host.at("a/b/state"));
  CHECK(mode_of(host.at("a/b/state")) == 0700);
  host.variables["SBX_STATE_DIR"] = "relative";
  const auto refused = open_state_dir(host.context());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code() == Errc::kUsage);
  host.variables["SBX_STATE_DIR"] = "";  // as if it were not set
  CHECK(open_state_dir(host.context()).ok());
}

TEST_CASE("paths: SBX_STATE_DIR that cannot be used is an error, never replaced by another place") {
  FakeHost host;
  host.passwd(host.at("home"));
  host.variables["SBX_STATE_DIR"] = "/proc/nowhere/state";
  const auto refused = open_state_dir(host.context());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find("SBX_STATE_DIR: ") == 0);
  CHECK(refused.error().message().find("/proc/nowhere") != std::string::npos);
}

TEST_CASE("paths: root uses the system's place whatever the variables") {
  FakeHost host;
  host.context().is_root = true;
  host.variables["HOME"] = host.at("home");
  host.variables["XDG_STATE_HOME"] = host.at("xdg");
  CHECK(path_of(open_state_dir(host.context())) == host.at("var/lib/sbx"));
  CHECK(id_claim_dir(host.context()).value() == host.at("run/sbx/ids"));
  host.context().system_run = "/proc/nowhere/sbx";
  CHECK(id_claim_dir(host.context()).value() == host.at("var/lib/sbx/ids"));
}

TEST_CASE("paths: a user's places in their order, also with an empty environment") {
  FakeHost host;
  host.context().is_root = false;
  host.passwd(host.at("home"));
  CHECK(path_of(open_state_dir(host.context())) == host.at("home/.local/state/sbx"));
  host.variables["HOME"] = "/proc/nonexistent";
  CHECK(path_of(open_state_dir(host.context())) == host.at("home/.local/state/sbx"));
  host.variables["HOME"] = host.at("other");
  CHECK(path_of(open_state_dir(host.context())) == host.at("other/.local/state/sbx"));
  host.variables["XDG_STATE_HOME"] = "relative/is/ignored";
  CHECK(path_of(open_state_dir(host.context())) == host.at("other/.local/state/sbx"));
  host.variables["XDG_STATE_HOME"] = host.at("xdg");
  CHECK(path_of(open_state_dir(host.context())) == host.at("xdg/sbx"));
}

TEST_CASE("paths: without any usable place the error says what to set") {
  FakeHost host;
  host.context().is_root = false;
  host.variables["HOME"] = "/proc/nonexistent";
  const auto refused = open_state_dir(host.context());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().hint().find("set SBX_STATE_DIR") == 0);
  host.variables.clear();
  CHECK(open_state_dir(host.context()).error().message().find("has no home in") !=
        std::string::npos);
}

TEST_CASE("paths: a state directory that others may enter, or that is a link, is refused") {
  FakeHost host;
  host.dir("open", 0750);
  host.variables["SBX_STATE_DIR"] = host.at("open");
  CHECK(open_state_dir(host.context()).error().hint() == "chmod 700 " + host.at("open"));
  host.dir("mine", 0700);
  REQUIRE(::symlink(host.at("mine").c_str(), host.at("link").c_str()) == 0);
  host.variables["SBX_STATE_DIR"] = host.at("link");
  CHECK_FALSE(open_state_dir(host.context()).ok());
  host.variables["SBX_STATE_DIR"] = host.at("link") + "/below";  // a link above is no harm
  CHECK(open_state_dir(host.context()).ok());
}

TEST_CASE("paths: another user's directory is refused by name of the owner") {
  FakeHost host;
  host.dir("theirs", 0700);
  host.variables["SBX_STATE_DIR"] = host.at("theirs");
  host.context().uid = ::geteuid() + 1;
  const auto refused = open_state_dir(host.context());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code() == Errc::kDenied);
  CHECK(refused.error().message().find("belongs to user " + std::to_string(::geteuid())) !=
        std::string::npos);
}

TEST_CASE("paths: the runtime directory is used only when it is there and ours alone") {
  FakeHost host;
  host.variables["SBX_STATE_DIR"] = host.at("state");
  const std::string fallback = host.at("state/run");
  CHECK(path_of(open_runtime_dir(host.context())) == fallback);
  CHECK(mode_of(fallback) == 0700);

  host.variables["XDG_RUNTIME_DIR"] = host.at("missing");
  CHECK(path_of(open_runtime_dir(host.context())) == fallback);
  CHECK(mode_of(host.at("missing")) == 0);  // not made

  host.dir("shared", 0777);
  host.variables["XDG_RUNTIME_DIR"] = host.at("shared");
  CHECK(path_of(open_runtime_dir(host.context())) == fallback);

  host.dir("xdg", 0700);
  host.variables["XDG_RUNTIME_DIR"] = "xdg";
  CHECK(path_of(open_runtime_dir(host.context())) == fallback);
  host.variables["XDG_RUNTIME_DIR"] = host.at("xdg");
  CHECK(path_of(open_runtime_dir(host.context())) == host.at("xdg/sbx"));
  CHECK(mode_of(host.at("xdg/sbx")) == 0700);

  REQUIRE(::symlink(host.at("xdg").c_str(), host.at("link").c_str()) == 0);
  host.variables["XDG_RUNTIME_DIR"] = host.at("link");
  CHECK(path_of(open_runtime_dir(host.context())) == fallback);

  if (::geteuid() == 0) {
    // Someone else's, as after `su`.
    REQUIRE(::chown(host.at("xdg").c_str(), 65534, 65534) == 0);
    host.variables["XDG_RUNTIME_DIR"] = host.at("xdg");
    CHECK(path_of(open_runtime_dir(host.context())) == fallback);
  } else {
    host.dir("readonly", 0500);
    host.variables["XDG_RUNTIME_DIR"] = host.at("readonly");
    CHECK(path_of(open_runtime_dir(host.context())) == fallback);
  }
}

TEST_CASE("paths: the configuration directory is named, not made") {
  FakeHost host;
  CHECK_FALSE(config_dir(host.context()).has_value());
  host.passwd(host.at("home"));
  CHECK(config_dir(host.context()) == host.at("home/.config/sbx"));
  host.variables["HOME"] = "/";
  CHECK(config_dir(host.context()) == "/.config/sbx");
  CHECK(home_dir(host.context()) == "/");
  host.variables["XDG_CONFIG_HOME"] = host.at("conf/");
  CHECK(config_dir(host.context()) == host.at("conf/sbx"));
  CHECK(mode_of(host.at("conf")) == 0);
}

TEST_CASE("paths: the defaults are this process and this host") {
  const PathContext context;
  CHECK(context.uid == ::geteuid());
  CHECK(context.env("PATH").has_value());
  CHECK_FALSE(context.env("SBX_NO_SUCH_VARIABLE").has_value());
}

}  // namespace sbx::host
