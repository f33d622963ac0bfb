// vm_state: a state directory with a guest kernel, for all cases of one build and subject.
#include "tests/e2e/vm_state.h"

#include <filesystem>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/kernel_files.h"
#include "tests/support/user.h"

namespace sbx::test {

std::string vm_state_dir() {
  const std::filesystem::path build = std::filesystem::path(sbx_path()).parent_path().filename();
  const std::string top = "/tmp/sbx-test-vm-" + subject().name;
  const std::string state = top + "/" + build.string();
  if (exists(state + "/kernels")) return state;
  // The package may lie where the subject cannot read it, so it comes as a copy.
  const std::string script =
      "set -e; umask 022; mkdir -p \"$1\"; exec 9>\"$1/lock\"; flock 9; [ ! -e \"$2/kernels\" ] || "
      "exit 0\n"
      "find \"$1\" -mindepth 1 -maxdepth 1 -type d -mmin +120 -exec rm -rf {} +\n"
      "rm -rf \"$2\"; mkdir -m 700 \"$2\"; cp \"$3\" \"$2/kernel.deb\"; chown -R \"$4\" \"$2\"";
  const std::string owner = std::to_string(subject().uid) + ":" + std::to_string(subject().gid);
  const Outcome made =
      run({.argv = {"/bin/sh", "-c", script, "sh", top, state, kernel_package_file(), owner}});
  INFO(made.show());
  REQUIRE(made.code == 0);
  if (exists(state + "/kernels")) return state;
  Spec install = sbx_spec({"kernel", "install", "--from", state + "/kernel.deb"});
  install.env = environment_of(subject());
  install.env.push_back("SBX_STATE_DIR=" + state);
  install.timeout = 180;
  const Outcome installed = run(install);
  INFO(installed.show());
  REQUIRE(installed.code == 0);
  return state;
}

}  // namespace sbx::test
