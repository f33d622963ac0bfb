// Writable root tests: what is written is kept, and nothing that a former run left is believed.
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/backend/jail_driver.h"

using namespace sbx;
using test::Identity;
using test::JailRequest;
using test::JailRun;
using test::Workspace;

namespace {

JailRun run(const Workspace& workspace, const std::string& script) {
  JailRequest request;
  request.upper = "up";
  request.script = script;
  return test::run_jail(workspace, std::move(request));
}

template <typename F>
void as_each(F test) {
  for (const Identity* who : test::identities()) {
    CAPTURE(who->name);
    Workspace workspace(*who);
    workspace.make_layer("up");
    test(workspace);
  }
}

}  // namespace

TEST_CASE("writable root: files in /work and /home/sbx are there again in the next run") {
  as_each([](const Workspace& workspace) {
    const JailRun first =
        run(workspace, "id -u; echo kept > /work/a; echo too > $HOME/b; echo no > /tmp/c");
    CHECK(first.error == "");
    CHECK(first.status == 0);
    CHECK(first.out == "1000\n");
    const JailRun second = run(
        workspace, "cat /work/a /home/sbx/b; ls /tmp; stat -c '%u %g %a' /work /home/sbx /work/a");
    CHECK(second.error == "");
    CHECK(second.out == "kept\ntoo\n1000 1000 755\n1000 1000 755\n1000 1000 644\n");
  });
}
