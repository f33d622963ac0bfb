// session_crash_test: kill -9 of each process of a session, records of other versions, hostile
// files.
#include <sys/stat.h>

#include <csignal>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/e2e/sessions.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// Processes below us that are no zombies.
std::vector<std::string> living() {
  std::vector<std::string> out = descendants();
  std::erase_if(out, [](const std::string& line) { return contains(line, ") Z"); });
  return out;
}

bool all_end() {
  return comes_true([] { return living().empty(); });
}

}  // namespace

TEST_SUITE("session") {
  TEST_CASE("session crash: after kill -9 of the supervisor, files are there and it starts again") {
    for (const bool is_paused : {false, true}) {
      INFO(is_paused);
      const Sessions sessions;
      sessions.start("s");
      const LeakCheck check;  // we are the reaper of orphans from here on
      REQUIRE(sessions.call({"stop", "s"}).code == 0);
      REQUIRE(sessions.exec("s", "echo kept >f; sync f").code == 0);
      sessions.detached("s", "setsid sleep 1000 & sleep 1000");
      Child child(sessions.spec(Sessions::exec_args("s", "echo up; sleep 1000")));
      REQUIRE(child.wait_for_text("up", 30));
      if (is_paused) REQUIRE(sessions.call({"pause", "s"}).code == 0);
      ::kill(sessions.supervisor("s"), SIGKILL);
      const Outcome told = child.wait();
      INFO(told.show());
      CHECK(told.code == 125);
      CHECK(comes_true([&] { return sessions.state("s") == "crashed"; }));
      CHECK(all_end());
      CHECK(joined(check.left_after_kill()) == "");
      CHECK(contains(sessions.call({"ls"}).out, "crashed"));
      CHECK(sessions.call({"pause", "s"}).code != 0);
      const Outcome o = sessions.exec("s", "cat f; pgrep -c sleep");
      INFO(o.show());
      CHECK(o.out == "kept\n0\n");
      CHECK(sessions.state("s") == "running");
      const Outcome lost = sessions.call({"wait", "s", "2"});
      INFO(lost.show());
      CHECK(lost.code == 125);
      CHECK(sessions.call({"stop", "s"}).code == 0);
      CHECK(sessions.state("s") == "stopped");
    }
  }

  TEST_CASE("session crash: one whose supervisor was killed can be removed at once") {
    const Sessions sessions;
    sessions.start("s");
    REQUIRE(sessions.exec("s", "mkdir d; (setsid sleep 1000 &)").code == 0);
    REQUIRE(sessions.call({"pause", "s"}).code == 0);
    ::kill(sessions.supervisor("s"), SIGKILL);
    REQUIRE(comes_true([&] { return sessions.state("s") == "crashed"; }));
    const Outcome o = sessions.call({"rm", "s"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(names_in(sessions.state_dir() + "/sessions").empty());
    CHECK(names_in(sessions.state_dir() + "/layers") == std::vector<std::string>{"lock"});
    CHECK(sessions.sbx({"gc"}).out == "nothing is left\n");
  }

  TEST_CASE("session crash: kill -9 of its PID 1 ends it, clients are told, the files are there") {
    const Sessions sessions;
    sessions.start("s");
    Child child(sessions.spec(Sessions::exec_args("s", "echo kept >f; echo up; sleep 1000")));
    REQUIRE(child.wait_for_text("up", 30));
    ::kill(sessions.init("s"), SIGKILL);
    const Outcome told = child.wait();
    INFO(told.show());
    CHECK(told.code == 125);
    CHECK(!told.err.empty());
    CHECK(comes_true([&] { return sessions.show("s", "/supervisor_pid") == "null"; }));
    CHECK(sessions.exec("s", "cat f").out == "kept\n");
  }

  TEST_CASE("session crash: a stopped supervisor does not wedge stop, rm and ls") {
    const Sessions sessions;
    sessions.start("s");
    ::kill(sessions.supervisor("s"), SIGSTOP);
    CHECK(sessions.call({"ls"}).code == 0);
    const Outcome o = sessions.call({"rm", "-f", "s"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(names_in(sessions.state_dir() + "/sessions").empty());
  }

  TEST_CASE("session: a record of a newer format is refused and stays as it is") {
    const Sessions sessions;
    sessions.start("s");
    sessions.start("other");
    REQUIRE(sessions.call({"stop", "s"}).code == 0);
    const std::string path = sessions.state_dir() + "/sessions/s/record.json";
    run({.argv = {"/bin/sed", "-i", "s/\"format\": *1,/\"format\":999,/", path}, .as = &subject()});
    const std::string before = slurp(path);
    REQUIRE(contains(before, "999"));
    const std::vector<Args> all = {{"exec", "s", "--", "true"},
                                   {"start", "s"},
                                   {"checkpoint", "s"},
                                   {"fork", "s", "t"},
                                   {"restore", "s", "x"}};
    for (const Args& args : all) {
      const Outcome o = sessions.call(args);
      INFO(args[0]);
      INFO(o.show());
      CHECK(o.code != 0);
      CHECK(contains(o.err, "newer"));
    }
    CHECK(sessions.call({"ls"}).code == 0);
    CHECK(sessions.exec("other", "echo works").out == "works\n");
    CHECK(sessions.sbx({"gc"}).code == 0);
    CHECK(slurp(path) == before);
    // Its layers were not swept away: with the old number it works.
    run({.argv = {"/bin/sed", "-i", "s/\"format\":999/\"format\":1/", path}, .as = &subject()});
    CHECK(sessions.exec("s", "true").code == 0);
  }

  TEST_CASE("session: a request of another protocol gets a clear answer, and stop works") {
    const Sessions sessions;
    sessions.start("s");
    const Outcome o = run({.argv = {"/usr/bin/python3",
                                    "-c",
                                    "import glob, socket, struct, sys\n"
                                    "def text(s): return bytes([0x60 + len(s)]) + s.encode()\n"
                                    "def ask(path, op, protocol):\n"
                                    "    s = socket.socket(socket.AF_UNIX)\n"
                                    "    try: s.connect(path)\n"
                                    "    except OSError: return b''\n"
                                    "    body = b'\\xa2' + text('op') + text(op) + text('protocol')"
                                    " + b'\\x19' + struct.pack('>H', protocol)\n"
                                    "    s.sendall(struct.pack('<I', len(body)) + body)\n"
                                    "    s.settimeout(5)\n"
                                    "    return s.recv(4096)\n"
                                    "for path in glob.glob(sys.argv[1] + '/run/s-*'):\n"
                                    "    for op in ('pause', 'status'):\n"
                                    "        sys.stdout.write(repr(ask(path, op, 999)) + '\\n')\n",
                                    sessions.state_dir()},
                           .env = sessions.spec({}).env,
                           .as = &subject()});
    INFO(o.show());
    CHECK(contains(o.out, "speaks protocol 1, the command protocol 999"));
    CHECK(contains(o.out, "running"));
    CHECK(sessions.state("s") == "running");
    CHECK(sessions.call({"stop", "s"}).code == 0);
  }

  TEST_CASE("session: links of its own at the places of mounts touch nothing of the host") {
    const Sessions sessions;
    const WorkDir canary;
    canary.write("file", "canary", 0666);
    const std::string where = canary.path();
    run({.argv = {"/bin/chmod", "777", where}});
    const Args user = subject_is_root() ? Args{"-u", "root"} : Args{};
    sessions.start("s", {"-v", where + ":/data/in:overlay", "-v", where + ":/srv/deep/ro:ro"});
    const std::string code =
        "cd /; for d in proc work tmp dev sys etc usr run srv data home var bin opt; do "
        "rm -rf --one-file-system /$d 2>/dev/null; mv /$d /x$d 2>/dev/null; ln -s " +
        where + " /$d 2>/dev/null; done; ln -sf " + where +
        "/file /etc/resolv.conf 2>/dev/null; "
        "ln -sfn " +
        where + " /etc/x; true";
    sessions.exec("s", code, user);
    CHECK(sessions.call({"stop", "s"}).code == 0);
    // What its files could be, by hand: links in place of every mount point of the upper layer.
    const Outcome put = run(
        {.argv = {
             "/bin/bash",
             "-c",
             "for root in \"$0\"/layers/*/fs/root; do [[ $root = */base-* ]] && continue; cd "
             "\"$root\" || exit 1; for d in proc work tmp dev sys etc usr run srv data home; do "
             "rm -rf ./$d; ln -s " +
                 where + " $d; done; ls -la; done",
             sessions.state_dir()}});
    INFO(put.show());
    REQUIRE(put.code == 0);
    const Outcome o = sessions.exec("s",
                                    "echo bad >/work/new; echo bad >/etc/resolv.conf; "
                                    "echo bad >/data/x; echo bad >/tmp/y; ls -la /");
    INFO(o.show());
    CHECK(names_in(where) == std::vector<std::string>{"file"});
    CHECK(slurp(where + "/file") == "canary");
    CHECK(sessions.call({"rm", "-f", "s"}).code == 0);
    CHECK(slurp(where + "/file") == "canary");
  }
}

}  // namespace sbx::test
