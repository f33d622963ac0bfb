// exit_test: exit statuses and causes of `sbx run`, each as the table of the manual says.
#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

TEST_SUITE("jail") {
  TEST_CASE("exit: a program's own status comes out unchanged, even one that sbx uses itself") {
    for (const int status : {0, 1, 2, 7, 124, 125, 126, 127, 130, 137, 255}) {
      const Outcome o = bash("exit " + std::to_string(status), {"--json"});
      INFO(o.show());
      CHECK(o.code == status);
      CHECK(field(o.out, "/cause") == "exited");
      CHECK(field(o.out, "/exit_code") == std::to_string(status));
    }
  }

  TEST_CASE("exit: a fatal signal gives 128 plus its number, and JSON names it") {
    struct Row {
      const char* name;
      int number;
    };
    for (const Row& row : {Row{"ABRT", 6},
                           Row{"SEGV", 11},
                           Row{"TERM", 15},
                           Row{"KILL", 9},
                           Row{"HUP", 1},
                           Row{"BUS", 7}}) {
      const Outcome o = bash(std::string("kill -") + row.name + " $$; sleep 5", {"--json"});
      INFO(o.show());
      CHECK(o.code == 128 + row.number);
      CHECK(field(o.out, "/cause") == "signal");
      CHECK(contains(field(o.out, "/signal"), row.name));
    }
  }

  TEST_CASE("exit: a program that aborts through its C library gives 134") {
    const Outcome o = python("import os; os.abort()");
    INFO(o.show());
    CHECK(o.code == 134);
  }

  TEST_CASE("exit: a program that does not exist gives 127 and one line with its name") {
    const Outcome o = command({"no-such-program-here", "x"});
    INFO(o.show());
    CHECK(o.code == 127);
    CHECK(o.out.empty());
    CHECK(lines_of(without_warnings(o.err)).size() == 1);
    CHECK(contains(o.err, "no-such-program-here"));
    CHECK((contains(o.err, "No such file") || contains(o.err, "not found")));
  }

  TEST_CASE("exit: a path that does not exist gives 127 and JSON says why") {
    const Outcome o = command({"/work/nothing"}, {"--json"});
    INFO(o.show());
    CHECK(o.code == 127);
    CHECK(field(o.out, "/cause") == "exited");
    CHECK(contains(field(o.out, "/error/message"), "/work/nothing"));
  }

  TEST_CASE("exit: a file without execute permission gives 126 with its path") {
    const WorkDir dir;
    const std::string file = dir.write("plain.txt", "hello\n");
    const Outcome o = command({"/work/plain.txt"}, {"-i", file});
    INFO(o.show());
    CHECK(o.code == 126);
    CHECK(contains(o.err, "plain.txt"));
    CHECK(contains(o.err, "Permission denied"));
  }

  TEST_CASE("exit: a directory as program gives 126") {
    const Outcome o = command({"/usr"});
    INFO(o.show());
    CHECK(o.code == 126);
  }

  TEST_CASE("exit: a script whose interpreter is missing gives 127 with its path") {
    const WorkDir dir;
    const std::string file = dir.write("script", "#!/no/such/interpreter\n", 0755);
    const Outcome o = command({"/work/script"}, {"-i", file});
    INFO(o.show());
    CHECK(o.code == 127);
    CHECK(contains(o.err, "script"));
  }

  TEST_CASE("exit: usage mistakes give 2, one sentence, and start nothing") {
    const WorkDir dir;
    for (const Args& args : {Args{"run", "--no-such-flag", "-c", "1"},
                             Args{"run", "-p", "no-such-profile", "-c", "1"},
                             Args{"run"},
                             Args{"run", "--timeout", "soon", "-c", "1"},
                             Args{"run", "-m", "-5", "-c", "1"},
                             Args{"no-such-verb"},
                             Args{"run", dir.at("missing.py")},
                             Args{"run", "-i", dir.at("missing"), "-c", "1"},
                             Args{"run", "--set", "no.such.key=1", "-c", "1"}}) {
      const Outcome o = call(args);
      INFO(o.show());
      CHECK(o.code == 2);
      CHECK(o.out.empty());
      CHECK(!o.err.empty());
      CHECK(contains(o.err, "sbx"));
    }
  }

  TEST_CASE("exit: a mistyped profile or flag is answered with the near one") {
    const Outcome o = call({"run", "-p", "pyhton", "-c", "1"});
    INFO(o.show());
    CHECK(contains(o.err, "python"));
    const Outcome flag = call({"run", "--timout", "3s", "-c", "1"});
    INFO(flag.show());
    CHECK(contains(flag.err, "--timeout"));
  }

  TEST_CASE("exit: the wall-clock limit gives 124 and the cause timeout") {
    const Outcome o = bash("sleep 100", {"--timeout", "1s", "--json"});
    INFO(o.show());
    CHECK(o.code == 124);
    CHECK(field(o.out, "/cause") == "timeout");
    CHECK(o.seconds < 8 * slowness());
  }

  TEST_CASE("exit: the memory limit gives 137 and the cause oom") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = python("x = b'x' * (1 << 30); print(len(x))", {"-m", "64M", "--json"});
    INFO(o.show());
    CHECK(o.code == 137);
    CHECK(field(o.out, "/cause") == "oom");
    CHECK(field(o.out, "/signal") == "KILL");
  }

  TEST_CASE("exit: a child ended by the memory limit is told, the status is its parent's") {
    SKIP_UNLESS("cgroup-memory");
    const Outcome o = bash("python3 -c 'x = b\"x\" * (1 << 30)'; exit 1", {"-m", "64M", "--json"});
    INFO(o.show());
    CHECK(o.code == 1);
    CHECK(field(o.out, "/exit_code") == "1");
    CHECK(field(o.out, "/limit_hit") == "memory");
  }

  TEST_CASE("exit: a program that survives a refused allocation is no failure") {
    const Outcome o = python(
        "try:\n    x = bytearray(1 << 46)\nexcept MemoryError:\n    print('refused')", {"--json"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(field(o.out, "/stdout") == "refused\n");
  }

  TEST_CASE("exit: a program that lets the refused allocation through fails by itself") {
    const Outcome o = python("bytearray(1 << 46)", {"--json"});
    INFO(o.show());
    CHECK(o.code == 1);
    CHECK(field(o.out, "/cause") == "exited");
  }

  TEST_CASE("exit: an explicit limit that cannot be enforced here gives 125 with the way out") {
    SKIP_UNLESS("no-cgroup-memory");
    const Outcome o = bash("echo started", {"-m", "64M", "--json"});
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(field(o.out, "/cause") == "sandbox_error");
    CHECK(!field(o.out, "/error/fix").empty());
    CHECK(!contains(o.out, "started"));
  }

  TEST_CASE("exit: a work directory that the root lacks is made or refused with its path") {
    const Outcome o = bash("pwd", {"-w", "/work/deep/er"});
    INFO(o.show());
    const bool made = o.code == 0 && trimmed(o.out) == "/work/deep/er";
    const bool refused = (o.code == 125 || o.code == 2) && contains(o.err, "/work/deep/er");
    CHECK((made || refused));
  }

  TEST_CASE("exit: the status line names the cause whatever the status is") {
    const WorkDir dir;
    const std::string script = "exec 5>'" + dir.at("status") + "'; exec '" + sbx_path() +
                               "' run --status-fd 5 -p bash -c 'exit 124'";
    const Outcome o = run({.argv = {"/bin/sh", "-c", script}, .cwd = dir.path(), .as = &subject()});
    INFO(o.show());
    CHECK(o.code == 124);
    const std::string status = slurp(dir.at("status"));
    INFO(status);
    CHECK(field(status, "/cause") == "exited");
    CHECK(field(status, "/exit_code") == "124");
  }

  TEST_CASE("exit: the result object has every field of the manual") {
    const Outcome o = bash("echo hello; echo oops >&2", {"--json"});
    INFO(o.show());
    CHECK(lines_of(o.out).size() == 1);
    CHECK(field(o.out, "/schema") == "1");
    for (const char* key : {"/id",
                            "/profile",
                            "/isolation",
                            "/isolation_reason",
                            "/cause",
                            "/exit_code",
                            "/signal",
                            "/retryable",
                            "/error",
                            "/stdout",
                            "/stderr",
                            "/stdout_bytes",
                            "/stderr_bytes",
                            "/truncated",
                            "/encoding",
                            "/artifacts",
                            "/usage/wall_s",
                            "/usage/cpu_s",
                            "/usage/max_memory_bytes",
                            "/phases/setup_s",
                            "/phases/run_s",
                            "/phases/collect_s",
                            "/limits_in_force",
                            "/denied"}) {
      INFO(key);
      CHECK(!field(o.out, key).empty());
    }
    CHECK(field(o.out, "/stdout") == "hello\n");
    CHECK(field(o.out, "/stderr") == "oops\n");
    CHECK(field(o.out, "/stdout_bytes") == "6");
    CHECK(field(o.out, "/signal") == "null");
    CHECK(field(o.out, "/error") == "null");
    CHECK(field(o.out, "/isolation") == (is_in_vm() ? "vm" : "jail"));
  }
}

}  // namespace sbx::test
