// users_test: two local users, and two sandboxes: none reaches into the other's.
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

/// Host pids of the programs with this text in their command line, below the test process.
std::vector<std::string> pids_with(const std::string& text) {
  std::vector<std::string> out;
  for (const auto& name : names_in("/proc")) {
    if (name[0] >= '0' && name[0] <= '9' && contains(slurp("/proc/" + name + "/cmdline"), text)) {
      out.push_back(name);
    }
  }
  return out;
}

/// A number of seconds to sleep that no other test process uses, to find the sleeper by.
std::string marker(int n) {
  return "7" + std::to_string(n) + std::to_string(::getpid());
}

std::string uid_of(const std::string& pid) {
  for (const auto& line : lines_of(slurp("/proc/" + pid + "/status"))) {
    if (line.rfind("Uid:", 0) == 0) {
      return line;
    }
  }
  return "";
}

/// What the other user could do to a process: one word per success.
Outcome attack(const std::string& pid, const Identity& who, bool with_range) {
  const std::string script =
      "import ctypes, os, sys, signal\n"
      "pid = int(sys.argv[1])\n"
      "for f in ('environ', 'maps', 'mem', 'root/work/secret', 'cwd/secret', 'fd/1', 'exe', "
      "'syscall'):\n"
      "    try:\n"
      "        open('/proc/%d/%s' % (pid, f), 'rb').read(1); print('READ', f)\n"
      "    except OSError: pass\n"
      "for f in ('root/work/secret', 'root/tmp/x', 'oom_score_adj', 'mem'):\n"
      "    try:\n"
      "        open('/proc/%d/%s' % (pid, f), 'r+b'); print('WROTE', f)\n"
      "    except OSError: pass\n"
      "libc = ctypes.CDLL(None)\n"
      "if libc.ptrace(16, pid, 0, 0) == 0: print('PTRACE')\n"
      "for ns in ('user', 'mnt', 'pid', 'net'):\n"
      "    try:\n"
      "        fd = os.open('/proc/%d/ns/%s' % (pid, ns), os.O_RDONLY)\n"
      "        if libc.setns(fd, 0) == 0: print('SETNS', ns)\n"
      "    except OSError: pass\n"
      "for sig in (0, signal.SIGTERM):\n"
      "    try: os.kill(pid, sig); print('SIGNAL', sig)\n"
      "    except OSError: pass\n"
      "print('tried')\n";
  std::vector<std::string> argv{"/usr/bin/python3", "-c", script, pid};
  if (with_range) {  // all ids that /etc/subuid gives this user, as the root of a user namespace
    argv.insert(argv.begin(), {"/usr/bin/unshare", "--user", "--map-auto", "--map-root-user"});
  }
  return run({.argv = argv, .cwd = "/", .as = &who});
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("users: a second user can neither read, signal, trace nor enter a sandbox") {
    SKIP_UNLESS("second-user");
    Child child(
        sbx_spec(bash_args("echo s3cret > secret; chmod 666 secret; chmod 777 .; echo ready; "
                           "exec sleep " +
                           marker(1))));
    REQUIRE(child.wait_for_text("ready", 30));
    const auto pids = pids_with(marker(1));
    REQUIRE(!pids.empty());
    for (const auto& pid : pids) {
      for (const bool with_range : {false, true}) {
        const Outcome o = attack(pid, other_user(), with_range);
        INFO(slurp("/proc/" + pid + "/cmdline"));
        INFO(o.show());
        CHECK(o.out == "tried\n");
      }
    }
    CHECK(child.running());
  }

  TEST_CASE("users: root's sandboxes have ids that nobody has, distinct per sandbox") {
    SKIP_UNLESS("root");
    if (!subject_is_root()) {
      return;  // the unprivileged form maps one id
    }
    std::vector<std::unique_ptr<Child>> jobs;
    for (int i = 0; i < 3; ++i) {
      jobs.push_back(
          std::make_unique<Child>(sbx_spec(bash_args("echo ready; exec sleep " + marker(i + 2)))));
      REQUIRE(jobs.back()->wait_for_text("ready", 30));
    }
    pause(0.3 * slowness());  // until each shell has become its sleep
    std::vector<std::string> ids;
    for (int i = 0; i < 3; ++i) {
      for (const auto& pid : pids_with(marker(i + 2))) {
        if (slurp("/proc/" + pid + "/comm") == "sleep\n") {
          ids.push_back(uid_of(pid));
        }
      }
    }
    REQUIRE(ids.size() == 3);
    CHECK(ids[0] != ids[1]);
    CHECK(ids[1] != ids[2]);
    CHECK(ids[0] != ids[2]);
    for (const auto& id : ids) {
      const long uid = std::stol(id.substr(5));
      INFO(id);
      CHECK(uid > 0x60000000L);
    }
  }

  TEST_CASE("users: nothing of a running sandbox is readable or connectable by a second user") {
    SKIP_UNLESS("second-user");
    Child child(sbx_spec(bash_args("echo ready; exec sleep 60")));
    REQUIRE(child.wait_for_text("ready", 30));
    const std::string state =
        subject_is_root() ? "/var/lib/sbx" : subject().home + "/.local/state/sbx";
    const Outcome o =
        run({.argv = {"/bin/sh",
                      "-c",
                      "ls \"$0\"/* 2>/dev/null; cat \"$0\"/ids/* 2>/dev/null; "
                      "find /run /tmp /var/tmp /dev/shm -name 'sbx*' -type s 2>/dev/null; true",
                      state},
             .cwd = "/",
             .as = &other_user()});
    INFO(o.show());
    CHECK(o.out.empty());
  }

  TEST_CASE("users: another sandbox of the same user is not visible from inside") {
    Child child(sbx_spec(bash_args("echo ready; exec sleep " + marker(9))));
    REQUIRE(child.wait_for_text("ready", 30));
    const Outcome o = bash("grep -l '[7]" + marker(9).substr(1) +
                           "' /proc/[0-9]*/cmdline; kill -9 -1; echo still; exit 0");
    INFO(o.show());
    CHECK(!contains(o.out, "cmdline"));
    CHECK(child.running());
  }
}

}  // namespace sbx::test
