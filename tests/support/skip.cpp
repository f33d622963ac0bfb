// skip: leaves a test case that this machine cannot run, unless the machine was said to be able to.
#include "tests/support/skip.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/support/kernel_files.h"
#include "tests/support/process.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

bool runnable(const char* path) {
  return ::access(path, X_OK) == 0;
}

bool runs(std::vector<std::string> argv) {
  return run({.argv = std::move(argv), .timeout = 60}).code == 0;
}

bool can_unshare_user() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(::unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status == 0;
}

/// True when the subject may make a group for this controller (v1 tree, or v2 delegated).
bool cgroup_writable(const std::string& controller) {
  if (!subject_is_root()) {
    return std::getenv("SBX_TEST_DELEGATED") != nullptr;
  }
  return exists("/sys/fs/cgroup/" + controller) ||
         slurp("/sys/fs/cgroup/cgroup.controllers").find(controller) != std::string::npos;
}

using Probe = bool (*)();
struct Row {
  std::string_view name;
  Probe probe;
};

constexpr std::array<Row, 52> kProbes{{
    {"root", [] { return ::geteuid() == 0; }},
    {"user", [] { return test_user().uid != 0; }},
    {"second-user", [] { return ::geteuid() == 0 && other_user().uid != 0; }},
    {"userns", can_unshare_user},
    {"cgroup-memory", [] { return cgroup_writable("memory"); }},
    {"cgroup-pids", [] { return cgroup_writable("pids"); }},
    {"no-cgroup-memory", [] { return !cgroup_writable("memory"); }},
    {"cgroup-user", [] { return std::getenv("SBX_TEST_DELEGATED") != nullptr; }},
    {"cgroup-v2", [] { return exists("/sys/fs/cgroup/cgroup.controllers"); }},
    {"loop",
     [] {
       return ::access("/dev/loop-control", R_OK | W_OK) == 0 && runnable("/usr/sbin/mkfs.ext4");
     }},
    {"python", [] { return runnable("/usr/bin/python3"); }},
    {"pandas",
     [] {
       return runs({"/usr/bin/python3", "-c", "import pandas, matplotlib"});
     }},
    {"node", [] { return runnable("/usr/bin/node"); }},
    {"pip",
     [] {
       return runs({"/usr/bin/python3", "-m", "pip", "--version"});
     }},
    {"npm", [] { return runnable("/usr/bin/npm") && runnable("/usr/bin/node"); }},
    {"perl", [] { return runnable("/usr/bin/perl"); }},
    {"ruby", [] { return runnable("/usr/bin/ruby"); }},
    {"php", [] { return runnable("/usr/bin/php"); }},
    {"lua", [] { return runnable("/usr/bin/lua"); }},
    {"r", [] { return runnable("/usr/bin/Rscript"); }},
    {"tcl", [] { return runnable("/usr/bin/tclsh"); }},
    {"awk", [] { return runnable("/usr/bin/awk"); }},
    {"sqlite", [] { return runnable("/usr/bin/sqlite3"); }},
    {"c", [] { return runnable("/usr/bin/gcc"); }},
    {"cpp", [] { return runnable("/usr/bin/g++"); }},
    {"rust", [] { return runnable("/usr/bin/rustc"); }},
    {"go", [] { return runnable("/usr/bin/go"); }},
    {"git", [] { return runnable("/usr/bin/git"); }},
    {"java", [] { return runnable("/usr/bin/javac"); }},
    {"bwrap", [] { return runnable("/usr/bin/bwrap"); }},
    {"pty", [] { return ::access("/dev/ptmx", R_OK | W_OK) == 0; }},
    {"bash", [] { return runnable("/bin/bash"); }},
    {"fish", [] { return runnable("/usr/bin/fish"); }},
    {"zsh", [] { return runnable("/usr/bin/zsh"); }},
    {"mandoc", [] { return runnable("/usr/bin/mandoc"); }},
    {"qemu", [] { return runnable("/usr/bin/qemu-system-x86_64"); }},
    {"vm",
     [] {
       return runnable("/usr/bin/qemu-system-x86_64") && runnable("/usr/sbin/mkfs.ext4") &&
              exists(kernel_package_file());
     }},
    {"kvm", [] { return ::access("/dev/kvm", R_OK | W_OK) == 0; }},
    {"apparmor", [] { return exists("/sys/kernel/security/apparmor"); }},
    {"systemd", [] { return exists("/run/systemd/system"); }},
    {"compiler", [] { return runnable("/usr/bin/cc"); }},
    {"image-ids",
     [] {
       return subject_is_root() ||
              (runnable("/usr/bin/newuidmap") &&
               slurp("/etc/subuid").find(subject().name + ":") != std::string::npos);
     }},
    {"skopeo", [] { return runnable("/usr/bin/skopeo"); }},
    {"docker-registry", [] { return runnable("/usr/bin/docker-registry"); }},
    {"umoci", [] { return runnable("/usr/bin/umoci"); }},
    {"buildah", [] { return runnable("/usr/bin/buildah"); }},
    {"mmdebstrap", [] { return runnable("/usr/bin/mmdebstrap"); }},
    {"erofs", [] { return runnable("/usr/bin/mkfs.erofs"); }},
    {"kernel-package", [] { return exists(kernel_package_file()); }},
    {"busybox", [] { return runnable("/bin/busybox"); }},
    {"pip", [] { return runnable("/usr/bin/pip3"); }},
    {"npm", [] { return runnable("/usr/bin/npm"); }},
}};

/// True when a comma separated list in the environment has the word, or the word@SUBJECT.
bool listed(const char* variable, std::string_view capability) {
  const char* list = std::getenv(variable);
  if (list == nullptr) {
    return false;
  }
  const std::string all = "," + std::string(list) + ",";
  const std::string word = "," + std::string(capability);
  return all.find(word + ",") != std::string::npos ||
         all.find(word + (subject_is_root() ? "@root," : "@user,")) != std::string::npos;
}

}  // namespace

double slowness() {
  const char* text = std::getenv("SBX_TEST_SLOW");
  const double factor = text != nullptr ? std::strtod(text, nullptr) : 1;
  return factor < 1 ? 1 : factor;
}

bool have(std::string_view capability) {
  static std::map<std::string_view, bool> known;
  if (const auto it = known.find(capability); it != known.end()) {
    return it->second;
  }
  for (const auto& row : kProbes) {
    if (row.name == capability) {
      return known[row.name] = row.probe();
    }
  }
  FAIL("no such capability: " << std::string(capability));
  return false;
}

bool skip_without(std::string_view capability) {
  if (have(capability)) {
    return false;
  }
  if (listed("SBX_TEST_REQUIRE", capability)) {
    FAIL("this machine must have: " << std::string(capability));
  }
  if (std::getenv("SBX_TEST_REQUIRE") != nullptr && !listed("SBX_TEST_OPTIONAL", capability)) {
    FAIL("name it in required.txt or optional.txt: " << std::string(capability));
  }
  MESSAGE("SKIP: needs " << std::string(capability));
  return true;
}

}  // namespace sbx::test
