// limits_test: limits are in force as they are reported, and stay within the job.
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

TEST_SUITE("jail") {
  TEST_CASE("limits: the result names value and mechanism of each limit in force") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = bash("true", {"-m", "64M", "--pids", "50", "--json"});
    INFO(o.show());
    const std::string limits = field(o.out, "/limits_in_force");
    CHECK(contains(limits, "memory"));
    CHECK(contains(limits, "67108864"));
    CHECK(contains(limits, "cgroup"));
    CHECK(contains(limits, "pids"));
  }

  TEST_CASE("limits: a process count is held") {
    const Outcome o = bash("for i in $(seq 60); do sleep 5 & done; jobs -p | wc -l",
                           {"--pids", "20", "--set", "limits.best_effort=true"});
    INFO(o.show());
    const auto lines = lines_of(o.out);
    CHECK((o.code != 0 || (!lines.empty() && std::stoi(lines[0]) < 60)));
    CHECK(contains(o.err, "Resource temporarily unavailable"));
  }

  TEST_CASE("limits: all processes of a job share one memory limit") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = bash(
        "for i in 1 2 3 4; do python3 -c 'x = b\"x\" * (40 << 20); import time; time.sleep(3)' & "
        "done; wait; exit 0",
        {"-m", "100M", "--json"});
    INFO(o.show());
    CHECK(field(o.out, "/limit_hit") == "memory");
  }

  TEST_CASE("limits: one limit at a time works, and no group stays") {
    SKIP_UNLESS("cgroup-memory");
    const LeakCheck check;
    for (const Args& flags : {Args{"-m", "64M"},
                              Args{"--pids", "20"},
                              Args{"--cpus", "0.5"},
                              Args{"--timeout", "20s"}}) {
      for (int i = 0; i < (slowness() > 1 ? 2 : 5); ++i) {
        const Outcome o = bash("true", flags);
        INFO(o.show());
        REQUIRE(o.code == 0);
      }
    }
    CHECK(joined(check.left()) == "");
  }

  TEST_CASE("limits: half a processor is half a processor") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = python(
        "import time\nused = time.process_time()\nend = time.monotonic() + 4\n"
        "while time.monotonic() < end: pass\nprint(time.process_time() - used < 3.2)",
        {"--cpus", "0.5"});
    INFO(o.show());
    CHECK(o.out == "True\n");
  }

  TEST_CASE("limits: the CPU time of many short-lived children counts, ended with its own cause") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = bash("while :; do (for i in $(seq 300); do :; done); done",
                           {"--cpu-time", "200ms", "--timeout", "5m", "--json"});
    INFO(o.show());
    CHECK(o.code == 124);
    CHECK(field(o.out, "/cause") == "cpu_limit");
    CHECK(std::stod(field(o.out, "/usage/cpu_s")) >= 0.2);
    CHECK(contains(field(o.out, "/limits_in_force/cpu_time/mechanism"), "cgroup"));
    CHECK(contains(o.err, "--cpu-time"));
  }

  TEST_CASE("limits: a job that sleeps keeps its CPU time, and one that ignores SIGXCPU ends") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome idle = bash("sleep 1; echo done", {"--cpu-time", "900ms"});
    INFO(idle.show());
    CHECK(idle.out == "done\n");
    const Outcome deaf =
        bash("trap '' XCPU; while :; do :; done", {"--cpu-time", "100ms", "--json"});
    INFO(deaf.show());
    CHECK(deaf.code == 124);
    CHECK(field(deaf.out, "/cause") == "cpu_limit");
  }

  TEST_CASE("limits: CPU time that only each process apart could be held to is refused") {
    SKIP_UNLESS("no-cgroup-memory");
    const Outcome refused = bash("echo ran", {"--cpu-time", "1s"});
    INFO(refused.show());
    CHECK(refused.code == 125);
    CHECK(refused.out.empty());
    CHECK(contains(refused.err, "cpu_time"));
    const Outcome o = bash("while :; do :; done",
                           {"--cpu-time", "1s", "--set", "limits.best_effort=true", "--json"});
    INFO(o.show());
    CHECK(o.code == 124);
    CHECK(field(o.out, "/cause") == "cpu_limit");
    CHECK(field(o.out, "/limits_in_force/cpu_time/approximate") == "true");
  }

  TEST_CASE("limits: in cgroup v2 everything inside is in the job's group from its first moment") {
    SKIP_UNLESS("cgroup-v2");
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = bash("cat /proc/1/cgroup /proc/self/cgroup", {"--pids", "20", "--json"});
    INFO(o.show());
    CHECK(field(o.out, "/stdout") == "0::/\n0::/\n");
    CHECK(field(o.out, "/limits_in_force/pids/value") == "20");
  }

  TEST_CASE("limits: a tree of forks meets the process limit, and the host stays") {
    const Outcome o = bash("f() { f | f & }; f; sleep 1; echo over",
                           {"--pids", "30", "--set", "limits.best_effort=true", "--json"});
    INFO(o.show());
    CHECK(contains(field(o.out, "/stderr"), "Resource temporarily unavailable"));
  }

  TEST_CASE("limits: nothing, too little, too much and nonsense are mistakes in the command") {
    for (const Args& flags : {Args{"-m", "0"},
                              Args{"-m", "1M"},
                              Args{"-m", "-1"},
                              Args{"-m", "1e30"},
                              Args{"-m", "17592186044417M"},
                              Args{"-m", "18446744073709551616"},
                              Args{"--pids", "0"},
                              Args{"--pids", "4194305"},
                              Args{"--pids", "0x10"},
                              Args{"--cpus", "0"},
                              Args{"--cpus", "0.001"},
                              Args{"--cpus", "1e9"},
                              Args{"--cpu-time", "0s"},
                              Args{"--cpu-time", "10"},
                              Args{"--cpu-time", "9223372036854775807d"},
                              Args{"--disk", "0"},
                              Args{"--disk", "999999T"},
                              Args{"--inodes", "0"},
                              Args{"--inodes", "1e3"},
                              Args{"--timeout", "0s"},
                              Args{"--open-files", "0"}}) {
      const Outcome o = bash("echo ran", flags);
      INFO(o.show());
      CHECK(o.code == 2);
      CHECK(o.out.empty());
    }
  }

  TEST_CASE("limits: core files are off and the address of the limit cannot be raised") {
    const Outcome o = bash("ulimit -c; ulimit -n; ulimit -n 100000 2>/dev/null || echo held");
    INFO(o.show());
    CHECK(o.out == "0\n1024\nheld\n");
  }

  TEST_CASE("limits: a shipped default that cannot be enforced is an approximation, said once") {
    SKIP_UNLESS("no-cgroup-memory");
    const Outcome o = bash("echo ran", {"--json"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(field(o.out, "/stdout") == "ran\n");
    CHECK(contains(field(o.out, "/limits_in_force"), "memory"));
    CHECK(lines_of(o.err).size() <= 1);
  }
}

}  // namespace sbx::test
