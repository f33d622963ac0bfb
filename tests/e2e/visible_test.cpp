// visible_test: programs inside see their limits, and cannot change them there.
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

TEST_SUITE("jail") {
  TEST_CASE("visible: the memory limit stands where runtimes look for it, read-only") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = bash(
        "cd /sys/fs/cgroup; cat memory.max memory/memory.limit_in_bytes 2>/dev/null; "
        "for f in memory.max memory/memory.limit_in_bytes cgroup.procs memory/cgroup.procs; do "
        "[ -e $f ] && (echo 0 > $f) 2>&1 | grep -o 'Read-only file system'; done | sort -u; "
        "mkdir mine memory/mine 2>/dev/null || echo no; grep -c 'cgroup.*memory\\|cgroup2' "
        "/proc/self/mountinfo",
        {"-m", "512M"});
    INFO(o.show());
    CHECK(o.out == "536870912\nRead-only file system\nno\n1\n");
  }

  TEST_CASE("visible: nothing is shown unless somebody asked for a limit") {
    const Outcome o = bash("find /sys | wc -l");
    INFO(o.show());
    CHECK(o.out == "7\n");
  }

  TEST_CASE("visible: nproc and python count the processors that cpus rounds up to") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = python(
        "import os, subprocess\n"
        "print(len(os.sched_getaffinity(0)), subprocess.check_output('nproc').decode().strip())",
        {"--cpus", "0.5", "-m", "512M"});
    INFO(o.show());
    CHECK(o.out == "1 1\n");
  }

  TEST_CASE("visible: the processor quota stands beside it") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = bash(
        "cd /sys/fs/cgroup; cat cpu.max 2>/dev/null || cat cpu/cpu.cfs_quota_us "
        "cpu/cpu.cfs_period_us",
        {"--cpus", "0.5"});
    INFO(o.show());
    CHECK((o.out == "50000 100000\n" || o.out == "50000\n100000\n"));
  }

  TEST_CASE("visible: node sizes itself by the limits") {
    SKIP_UNLESS("node");
    SKIP_UNLESS("cgroup-memory");
    Args args{"run", "-p", "node", "-m", "512M", "--cpus", "1", "-c"};
    args.emplace_back(
        "const os = require('os');"
        "console.log(process.constrainedMemory ? process.constrainedMemory() : 536870912,"
        "(os.availableParallelism ? os.availableParallelism() : 1))");
    const Outcome o = call(args);
    INFO(o.show());
    CHECK(o.out == "536870912 1\n");
  }

  TEST_CASE("visible: a JVM takes a quarter of the memory limit for its heap") {
    SKIP_UNLESS("cgroup-memory");
    SKIP_UNLESS("java");
    const std::string code =
        "public class Main { public static void main(String[] a) { Runtime r = "
        "Runtime.getRuntime(); System.out.println((r.maxMemory() >> 20) <= 256 ? \"fits\" : "
        "r.maxMemory()); System.out.println(r.availableProcessors()); } }";
    const Outcome shipped = call({"run", "-p", "java", "-c", code});
    INFO(shipped.show());
    CHECK(contains(shipped.out, "fits\n"));
    const Outcome asked = call({"run", "-p", "java", "-m", "768M", "--cpus", "1", "-c", code});
    INFO(asked.show());
    CHECK(asked.out == "fits\n1\n");
  }

  TEST_CASE("visible: a job that could make the view writable has none") {
    const Outcome o =
        bash("find /sys | wc -l",
             {"-m", "512M", "--set", "nesting=true", "--set", "limits.best_effort=true"});
    INFO(o.show());
    CHECK(o.out == "7\n");
  }
}

}  // namespace sbx::test
