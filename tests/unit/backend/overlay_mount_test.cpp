// Overlay mount tests: the host's directory stays as it was.
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/backend/jail_driver.h"

using namespace sbx;
using test::Identity;
using test::JailRequest;
using test::JailRun;
using test::Workspace;

namespace {

constexpr const char* kChange =
    "cat /data/a; echo new > /data/a; rm /data/b; mkdir /data/d; rm -r /data/sub; "
    "mkdir /data/sub; stat -c '%u %g %a' /data; ls -A /data/sub";

/// A directory of the host with some files, its path.
std::string host_dir(const Workspace& workspace) {
  const std::string dir = workspace.state() + "/host";
  workspace.on_host("mkdir -p " + dir + "/sub; cd " + dir +
                    "; echo a > a; echo b > b; echo c > sub/c; chmod 750 .");
  return dir;
}

void check_untouched(const Workspace& workspace) {
  workspace.on_host("cd " + workspace.state() +
                    "/host && test \"$(find . | sort | tr '\\n' ' ')\" = './a ./b ./sub "
                    "./sub/c ' -o \"$(find . | sort | tr '\\n' ' ')\" = '. ./a ./b ./sub "
                    "./sub/c ' && test \"$(cat a)\" = a");
}

JailRequest request_of(const std::string& dir, const std::string& script) {
  JailRequest request;
  request.profile.mounts = {{dir, "/data", profile::MountMode::kOverlay, {}}};
  request.script = script;
  return request;
}

template <typename F>
void as_each(F test) {
  for (const Identity* who : test::identities()) {
    CAPTURE(who->name);
    Workspace workspace(*who);
    workspace.make_layer("up");
    test(workspace, host_dir(workspace));
  }
}

}  // namespace

TEST_CASE("overlay mount: without a kept root its changes go with the run") {
  as_each([](const Workspace& workspace, const std::string& dir) {
    for (int i = 0; i < 2; ++i) {
      const JailRun jail = test::run_jail(workspace, request_of(dir, kChange));
      CHECK(jail.error == "");
      CHECK(jail.out == "a\n1000 1000 750\n");
      check_untouched(workspace);
    }
    // Nothing of the host's directory is to be seen beside the mount.
    const JailRun look = test::run_jail(
        workspace, request_of(dir, "grep -c host /proc/self/mountinfo; ls -A /work"));
    CHECK(look.out == "0\n");
  });
}

TEST_CASE("overlay mount: with a kept root its changes are there again") {
  as_each([](const Workspace& workspace, const std::string& dir) {
    JailRequest request = request_of(dir, kChange);
    request.upper = "up";
    CHECK(test::run_jail(workspace, request).out == "a\n1000 1000 750\n");
    check_untouched(workspace);
    request.script = "cat /data/a; ls -A /data /data/sub";
    CHECK(test::run_jail(workspace, request).out == "new\n/data:\na\nd\nsub\n\n/data/sub:\n");
    // As a frozen layer as well.
    workspace.on_host("mv " + workspace.layer("up") + " " + workspace.layer("one"));
    workspace.make_layer("up");
    request.lowers = {"one"};
    CHECK(test::run_jail(workspace, request).out == "new\n/data:\na\nd\nsub\n\n/data/sub:\n");
    check_untouched(workspace);
  });
}

TEST_CASE("overlay mount: two of them, one of them below /work, beside ro and rw mounts") {
  as_each([](const Workspace& workspace, const std::string& dir) {
    JailRequest request = request_of(
        dir,
        "echo 1 > /data/a; echo 2 > /work/p/a; ! echo 3 2>/dev/null > /ro/a; echo 4 > /rw/z; "
        "cat /data/a /work/p/a; stat -c %u /work/p /work");
    const std::string other = workspace.state() + "/other";
    workspace.on_host("mkdir " + other);
    request.profile.mounts.push_back({dir, "/work/p", profile::MountMode::kOverlay, {}});
    request.profile.mounts.push_back({dir, "/ro", profile::MountMode::kReadOnly, {}});
    request.profile.mounts.push_back({other, "/rw", profile::MountMode::kReadWrite, {}});
    for (const char* upper : {"", "up"}) {
      CAPTURE(upper);
      request.upper = upper;
      const JailRun jail = test::run_jail(workspace, request);
      CHECK(jail.error == "");
      CHECK(jail.out == "1\n2\n1000\n1000\n");
      check_untouched(workspace);
      workspace.on_host("test \"$(cat " + other + "/z)\" = 4 && rm " + other + "/z");
    }
  });
}

TEST_CASE("overlay mount: a file cannot be one") {
  as_each([](const Workspace& workspace, const std::string& dir) {
    const JailRun jail = test::run_jail(workspace, request_of(dir + "/a", "true"));
    CHECK(jail.error.find("only directories") != std::string::npos);
  });
}

TEST_CASE("overlay mount: a link that a former run put at the place leads nowhere") {
  as_each([](const Workspace& workspace, const std::string& dir) {
    workspace.on_host("mkdir -p " + workspace.in_root("up", "") + " && ln -s /usr " +
                      workspace.in_root("up", "/data"));
    workspace.give_to_job("up");
    JailRequest request = request_of(dir, "cat /data/a; test -d /usr/bin && echo fine");
    request.upper = "up";
    const JailRun jail = test::run_jail(workspace, request);
    CHECK(jail.error == "");
    CHECK(jail.out == "a\nfine\n");
  });
}
