// session_exec_test: programs in a session: exit statuses, streams, terminals, many at once.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/e2e/sessions.h"
#include "tests/support/pty.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

constexpr std::string_view kEveryByte =
    "for i in {0..255}; do printf \"\\\\x$(printf %x $i)\"; done";

Spec on(Pty& pty, Spec spec) {
  spec.pty = &pty;
  return spec;
}

/// How it ended; its terminal is read meanwhile.
Outcome end_of(Pty& pty, Child& child) {
  constexpr double kStep = 0.02;
  for (double waited = 0; waited < 30 * slowness() && child.running(); waited += kStep) {
    pty.watch(kStep);
  }
  return child.wait();
}

/// Runs it to its end on a terminal; what the screen shows then.
std::string shown(Pty& pty, const Spec& spec, int* code = nullptr) {
  Child child(on(pty, spec));
  const Outcome o = end_of(pty, child);
  if (code != nullptr) *code = o.code;
  pty.watch(0.1);
  return pty.screen();
}

}  // namespace

TEST_SUITE("session") {
  TEST_CASE("session exec: exit statuses and causes are those of a run") {
    const Sessions sessions;
    sessions.start("s");
    struct Row {
      std::string code;
      int status;
      std::string cause;
      std::string signal;
    };
    const std::vector<Row> rows = {{"exit 0", 0, "exited", "null"},
                                   {"exit 7", 7, "exited", "null"},
                                   {"exit 255", 255, "exited", "null"},
                                   {"kill -ABRT $$", 134, "signal", "ABRT"},
                                   {"kill -SEGV $$", 139, "signal", "SEGV"},
                                   {"kill -TERM $$", 143, "signal", "TERM"},
                                   {"kill -KILL $$", 137, "signal", "KILL"}};
    for (const Row& row : rows) {
      INFO(row.code);
      CHECK(sessions.exec("s", row.code).code == row.status);
      const Outcome o = sessions.exec("s", row.code, {"--json"});
      CHECK(o.code == row.status);
      CHECK(field(o.out, "/cause") == row.cause);
      CHECK(field(o.out, "/signal") == row.signal);
      CHECK(field(o.out, "/exit_status") == std::to_string(row.status));
    }
    REQUIRE(sessions.exec("s", "echo x >plain; printf '#!/no/such\\n' >bad; chmod +x bad").code ==
            0);
    CHECK(sessions.call({"exec", "s", "--", "no-such-program"}).code == 127);
    const Outcome plain = sessions.call({"exec", "s", "--", "/work/plain"});
    CHECK(plain.code == 126);
    CHECK(contains(plain.err, "/work/plain"));
    CHECK(sessions.call({"exec", "s", "--", "/work/bad"}).code == 127);
    CHECK(sessions.call({"exec", "s", "-w", "/no/such", "--", "true"}).code != 0);
    const Outcome late = sessions.exec("s", "trap '' TERM; sleep 100", {"--timeout", "300ms"});
    CHECK(late.code == 124);
    CHECK(contains(late.err, "time limit"));
  }

  TEST_CASE("session exec: a program killed from a second exec ends with 137, never 0") {
    const Sessions sessions;
    sessions.start("s");
    for (const bool is_json : {false, true}) {
      Child child(sessions.spec(Sessions::exec_args(
          "s", "echo $$ >pid; exec sleep 1000", is_json ? Args{"--json"} : Args{})));
      REQUIRE(sessions.comes("s", "[ -s pid ] && kill -9 $(cat pid)"));
      const Outcome o = child.wait();
      INFO(o.show());
      CHECK(o.code == 137);
      if (is_json) CHECK(field(o.out, "/signal") == "KILL");
    }
    const std::string id = sessions.detached("s", "sleep 1000");
    CHECK(sessions.call({"kill", "s", id, "-s", "KILL"}).code == 0);
    CHECK(sessions.call({"wait", "s", id}).code == 137);
  }

  TEST_CASE("session exec: without -i our stdin is not touched, with -i it arrives whole") {
    const Sessions sessions;
    sessions.start("s");
    const std::string fifo = sessions.dir().at("fifo");
    REQUIRE(::mkfifo(fifo.c_str(), 0666) == 0);
    const int nobody = ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);  // nobody writes, nobody closes
    Spec spec = sessions.spec(Sessions::exec_args("s", "echo hi; cat"));
    spec.in = nobody;
    const Outcome held = run(spec);
    CHECK(held.code == 0);
    CHECK(held.out == "hi\n");
    for (const Args& flags : {Args{}, Args{"-i"}}) {
      Spec open = sessions.spec(Sessions::exec_args("s", "echo hi", flags));
      open.in = nobody;
      CHECK(run(open).out == "hi\n");
    }
    ::close(nobody);
    Spec loop = sessions.spec({});
    loop.argv = {"/bin/sh",
                 "-c",
                 "while read -r n; do \"$0\" session exec s -- echo \"<$n>\"; done",
                 sbx_path()};
    loop.input = "a\nb\nc\nd\n";
    CHECK(run(loop).out == "<a>\n<b>\n<c>\n<d>\n");
    Spec whole = sessions.spec(Sessions::exec_args("s", "sha256sum; echo end", {"-i"}));
    whole.input = std::string(3'000'000, 'x') + '\0' + "\xff";
    const Outcome sum = run({.argv = {"/usr/bin/sha256sum"}, .input = whole.input});
    CHECK(run(whole).out == sum.out + "end\n");
  }

  TEST_CASE("session exec: every byte, and a character in two halves, come back as they are") {
    const Sessions sessions;
    sessions.start("s");
    std::string every;
    for (int i = 0; i < 256; ++i) {
      every += static_cast<char>(i);
    }
    const Outcome o =
        sessions.exec("s", std::string(kEveryByte) + "; " + std::string(kEveryByte) + " >&2");
    CHECK(o.out == every);
    CHECK(o.err == every);
    const Outcome json = sessions.exec("s", kEveryByte, {"--json"});
    CHECK(field(json.out, "/encoding") == "base64");
    const Outcome halves =
        sessions.exec("s", "printf 'a\\xf0\\x9f'; sleep 0.2; printf '\\x98\\x80b'", {"--json"});
    CHECK(field(halves.out, "/stdout") ==
          "a\xf0\x9f\x98\x80"
          "b");
    Spec echo = sessions.spec({"session", "exec", "s", "-i", "--", "cat"});
    echo.input = every;
    CHECK(run(echo).out == every);
  }

  TEST_CASE("session exec: what a background child holds open does not hold the command") {
    const Sessions sessions;
    sessions.start("s");
    const Outcome o =
        sessions.exec("s", "(sleep 1000 &); (setsid sleep 1000 &); echo said; exit 4");
    INFO(o.show());
    CHECK(o.code == 4);
    CHECK(o.out == "said\n");
    CHECK(sessions.exec("s", "pgrep -c sleep").out == "2\n");
    const Outcome json = sessions.exec("s", "sleep 1000 & echo said", {"--json"});
    CHECK(field(json.out, "/stdout") == "said\n");
    Child detach(sessions.spec(Sessions::exec_args("s", "sleep 1000", {"-d"})));
    CHECK(detach.wait().code == 0);
  }

  TEST_CASE("session exec: output past the limit is cut and said, the program goes on") {
    const Sessions sessions;
    sessions.start("s", {"--output-limit", "1M"});
    const Outcome o =
        sessions.exec("s", "head -c 20000000 /dev/zero; echo end >ended; exit 6", {"--json"});
    CHECK(o.code == 6);
    CHECK(field(o.out, "/truncated") == "true");
    CHECK(field(o.out, "/stdout_bytes") == "20000000");
    const Outcome plain = sessions.exec("s", "head -c 20000000 /dev/zero; exit 6");
    CHECK(plain.code == 6);
    CHECK(plain.out.size() == 1U << 20U);
  }

  TEST_CASE("session exec: a closed pipe, a full device and a file to append to are right") {
    const Sessions sessions;
    sessions.start("s");
    Spec spec = sessions.spec({});
    const std::string exec = "\"$0\" session exec s -- ";
    spec.argv = {"/bin/sh",
                 "-c",
                 exec + "yes | head -1; echo; " + exec + "echo x >/dev/full; echo $?",
                 sbx_path()};
    const Outcome o = run(spec);
    INFO(o.show());
    CHECK(!o.timed_out);
    CHECK(contains(o.out, "y\n"));
    CHECK(sessions.comes("s", "! pgrep -x yes"));
    const std::string log = sessions.dir().write("log", "before\n", 0666);
    spec.argv = {"/bin/sh", "-c", exec + "seq 1 5000 >>\"$1\"", sbx_path(), log};
    CHECK(run(spec).code == 0);
    CHECK(lines_of(slurp(log)).size() == 5001);
    CHECK(lines_of(slurp(log)).front() == "before");
    CHECK(lines_of(slurp(log)).back() == "5000");
  }

  TEST_CASE("session exec: 32 at once with 10 MB each arrive whole") {
    const Sessions sessions;
    sessions.start("s");
    const Outcome want = run({.argv = {"/bin/sh", "-c", "seq 1 1400000 | sha256sum"}});
    Spec spec = sessions.spec({});
    spec.argv = {"/bin/sh", "-c", "\"$0\" session exec s -- seq 1 1400000 | sha256sum", sbx_path()};
    std::vector<std::unique_ptr<Child>> all;
    for (int i = 0; i < 32; ++i) {
      all.push_back(std::make_unique<Child>(spec));
    }
    for (const auto& child : all) {
      const Outcome o = child->wait();
      INFO(o.show());
      CHECK(o.out == want.out);
    }
  }

  TEST_CASE("session exec: a client killed by -9 takes its program along, one with -d lives") {
    const Sessions sessions;
    sessions.start("s");
    sessions.detached("s", "exec sleep 7777");
    Child child(sessions.spec(Sessions::exec_args(
        "s", "trap 'echo hup >hup; exit' HUP; echo up; while :; do sleep 0.1; done")));
    REQUIRE(child.wait_for_text("up", 30));
    child.kill(SIGKILL);
    child.wait();
    CHECK(sessions.comes("s", "[ \"$(cat hup)\" = hup ]"));
    CHECK(sessions.exec("s", "pgrep -fc '^sleep 7777'").out == "1\n");
    Child deaf(sessions.spec(Sessions::exec_args(
        "s", "trap '' HUP TERM; echo $$ >deaf; echo up; sleep 8888; sleep 8888")));
    REQUIRE(deaf.wait_for_text("up", 30));
    deaf.kill(SIGKILL);
    deaf.wait();
    CHECK(sessions.comes("s", "! kill -0 $(cat deaf)"));
  }

  TEST_CASE("session exec: -t has our size from the first moment, and follows a resize") {
    SKIP_UNLESS("pty");
    const Sessions sessions;
    sessions.start("s");
    for (int i = 0; i < 20; ++i) {
      Pty pty(41, 62);
      int code = -1;
      const std::string screen =
          shown(pty, sessions.spec({"session", "exec", "s", "-t", "--", "stty", "size"}), &code);
      INFO(screen);
      REQUIRE(code == 0);
      REQUIRE(contains(screen, "41 62\r\n"));
    }
    Pty pty(41, 62);
    const termios before = pty.attributes();
    Child child(
        on(pty,
           sessions.spec(Sessions::exec_args("s",
                                             "trap 'printf \"now \"; stty size' WINCH; echo ready; "
                                             "while ! [ -e over ]; do sleep 0.05; done; exit 9",
                                             {"-t"}))));
    REQUIRE(pty.wait_for("ready", 20));
    pty.resize(17, 99);
    CHECK(pty.wait_for("now 17 99", 3));
    CHECK(sessions.exec("s", "touch over").code == 0);
    CHECK(end_of(pty, child).code == 9);
    CHECK(same_mode(before, pty.attributes()));
  }

  TEST_CASE("session shell: has job control, and our terminal is as before") {
    SKIP_UNLESS("pty");
    const Sessions sessions;
    sessions.start("s");
    Pty pty(24, 80);
    const termios before = pty.attributes();
    Child child(on(pty, sessions.spec({"session", "shell", "s"})));
    REQUIRE(pty.wait_for("$ ", 20));
    pty.type("sleep 100; echo over\r");
    CHECK(sessions.comes("s", "pgrep -x sleep"));
    pty.type("\x1a");
    CHECK(pty.wait_for("Stopped", 10));
    CHECK(!contains(pty.screen(), "no job control"));
    pty.type("exit 9\r");  // the shell asks once more while a job is stopped
    REQUIRE(pty.wait_for("There are stopped jobs", 10));
    pty.type("exit 9\r");
    CHECK(end_of(pty, child).code == 9);
    CHECK(same_mode(before, pty.attributes()));
  }
}

}  // namespace sbx::test
