#include "core/confine/scope.h"

#include <sys/stat.h>

#include <string>

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/base/fs.h"

namespace sbx::confine {
namespace {

ScopeView login_session() {
  ScopeView view;
  view.has_manager = true;
  view.runtime_dir = "/run/user/1000";
  view.busctl = "/usr/bin/busctl";
  view.pid = 77;
  return view;
}

/// A program in place of busctl, and a file in place of /proc/self/cgroup.
class Fake {
 public:
  explicit Fake(const std::string& script) : dir_(make()) {
    const std::string text = "#!/bin/sh\ncd " + dir_.path() + "\n" + script + "\n";
    REQUIRE(fs::write_atomic(dir_.fd(), "busctl", text, 0755).ok());
    REQUIRE(fs::write_atomic(dir_.fd(), "cgroup", "0::/user.slice/session-3.scope\n", 0644).ok());
  }
  Status enter(Millis patience) const {
    ScopeView view = login_session();
    view.busctl = dir_.path() + "/busctl";
    return enter_scope(plan_scope(view).value(), patience, dir_.path() + "/cgroup");
  }
  std::string read(const std::string& name) const {
    return fs::read_file(dir_.path() + "/" + name, Bytes{4096}).value();
  }

 private:
  static fs::TempDir make() {
    auto dir = fs::TempDir::create("/tmp", "sbx-scope-");
    REQUIRE(dir.ok());
    return std::move(dir).value();
  }
  fs::TempDir dir_;
};

}  // namespace

TEST_CASE("scope: it is asked for by an ordinary user without a group, whose systemd runs") {
  const auto call = plan_scope(login_session());
  REQUIRE(call.has_value());
  CHECK(call->unit == "sbx-77.scope");
  CHECK(call->runtime_dir == "/run/user/1000");
  ScopeView view = login_session();
  view.is_root = true;
  CHECK_FALSE(plan_scope(view).has_value());
  view = login_session();
  view.is_delegated = true;
  CHECK_FALSE(plan_scope(view).has_value());
  view = login_session();
  view.has_manager = false;
  CHECK_FALSE(plan_scope(view).has_value());
  view = login_session();
  view.busctl.clear();
  CHECK_FALSE(plan_scope(view).has_value());
}

TEST_CASE("scope: systemd is asked once, with our pid, and we wait until we were moved") {
  const Fake fake(
      "printf '%s\\n' \"$@\" >args\necho $XDG_RUNTIME_DIR >dir\n"
      "(sleep 0.1; echo 0::/user@1000.service/app.slice/sbx-77.scope >cgroup) &");
  CHECK(fake.enter(Millis{20'000}).ok());
  const std::string args = fake.read("args");
  CHECK(args.find("StartTransientUnit\nssa(sv)a(sa(sv))\nsbx-77.scope\nfail\n") !=
        std::string::npos);
  CHECK(args.find("PIDs\nau\n1\n77\nDelegate\nb\ntrue\n") != std::string::npos);
  CHECK(fake.read("dir") == "/run/user/1000\n");
}

TEST_CASE("scope: a systemd that refuses, hangs or forgets us does not hold us up") {
  const Fake refuses("exit 1");
  CHECK(refuses.enter(Millis{20'000}).error().code() == Errc::kUnsupported);
  const Fake hangs("exec sleep 1000");
  CHECK(hangs.enter(Millis{100}).error().code() == Errc::kTimeout);
  const Fake forgets("exit 0");
  CHECK(forgets.enter(Millis{300}).error().code() == Errc::kTimeout);
}

}  // namespace sbx::confine
