// session_logs_test: what execs wrote and what happened, told while a session lives and afterwards.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// A session "s" in a state directory of its own, removed at the end.
class Session {
 public:
  explicit Session(const Args& flags = {}) {
    Args args{"session", "start", "s", "-p", "bash"};
    args.insert(args.end(), flags.begin(), flags.end());
    const Outcome made = sbx(args);
    INFO(made.show());
    REQUIRE(made.code == 0);
  }
  ~Session() { sbx({"session", "rm", "-f", "s"}); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Spec spec(Args args) const {
    Spec spec = sbx_spec(std::move(args));
    spec.env = environment_of(subject());
    spec.env.push_back("SBX_STATE_DIR=" + dir_.at("state"));
    spec.clean_env = false;
    return spec;
  }
  Outcome sbx(Args args) const { return run(spec(std::move(args))); }
  Outcome exec(const std::string& code) const {
    return sbx({"session", "exec", "s", "--", "bash", "-c", code});
  }
  /// Its number.
  std::string detached(const std::string& code) const {
    const Outcome o = sbx({"session", "exec", "s", "-d", "--", "bash", "-c", code});
    INFO(o.show());
    REQUIRE(o.code == 0);
    return trimmed(o.out);
  }
  Outcome logs(Args more = {}) const {
    Args args{"session", "logs", "s"};
    args.insert(args.end(), more.begin(), more.end());
    return sbx(args);
  }
  std::string state(const std::string& name) const { return dir_.at("state/sessions/s/" + name); }

 private:
  WorkDir dir_;
};

/// Words of "event" of every line.
std::vector<std::string> events_in(const std::string& lines) {
  std::vector<std::string> words;
  for (const std::string& line : lines_of(lines)) {
    CHECK(field(line, "/time").size() == 24);
    words.push_back(field(line, "/event"));
  }
  return words;
}

constexpr std::string_view kEveryByte =
    "for i in {0..255}; do printf \"\\\\x$(printf %x $i)\"; done";

}  // namespace

TEST_SUITE("session") {
  TEST_CASE("logs: both streams come back byte for byte, while it runs and when it is stopped") {
    const Session session;
    const Outcome o =
        session.exec(std::string(kEveryByte) + "; " + std::string(kEveryByte) + " >&2");
    INFO(o.show());
    REQUIRE(o.code == 0);
    REQUIRE(o.out.size() == 256);
    Outcome kept = session.logs();
    CHECK(kept.code == 0);
    CHECK(kept.out == o.out);
    CHECK(kept.err == o.out);
    CHECK(session.logs({"--stream", "out"}).err.empty());
    CHECK(session.logs({"--stream", "err"}).out.empty());
    REQUIRE(session.sbx({"session", "pause", "s"}).code == 0);
    CHECK(session.logs().out == o.out);
    REQUIRE(session.sbx({"session", "stop", "s"}).code == 0);
    kept = session.logs({"1"});
    CHECK(kept.out == o.out);
    CHECK(kept.err == o.out);
  }

  TEST_CASE("logs: follow goes on until the exec ends, beside it and after it") {
    const Session session;
    const std::string id = session.detached(
        "echo begin; until [ -e go ]; do sleep 0.05; done; seq 1 2000; echo done >&2; exit 3");
    const Outcome beside =
        run({.argv = {"/usr/bin/python3",
                      "-c",
                      "import subprocess, sys\n"
                      "sbx = sys.argv[1:2]\n"
                      "p = subprocess.Popen(sbx + ['session', 'logs', 's', sys.argv[2], '-f'],\n"
                      "                     stdout=subprocess.PIPE)\n"
                      "first = p.stdout.readline()\n"
                      "subprocess.run(sbx + ['session', 'exec', 's', '--', 'touch', 'go'])\n"
                      "rest = p.stdout.read()\n"
                      "print(p.wait(), first == b'begin\\n', len(rest.split()))\n",
                      sbx_path(),
                      id},
             .env = session.spec({}).env,
             .as = &subject()});
    INFO(beside.show());
    CHECK(beside.out == "0 True 2000\n");
    CHECK(beside.err == "done\n");
    CHECK(session.sbx({"session", "wait", "s", id}).code == 3);
    const Outcome after = session.logs({id, "-f"});
    CHECK(after.code == 0);
    CHECK(lines_of(after.out).size() == 2001);
  }

  TEST_CASE("logs: follow ends when the session is stopped, and when its supervisor is killed") {
    for (const std::string how : {"stop", "kill"}) {
      const Session session;
      const std::string id = session.detached("echo begin; sleep 1000");
      const Outcome o =
          run({.argv = {"/usr/bin/python3",
                        "-c",
                        "import json, os, signal, subprocess, sys\n"
                        "sbx = sys.argv[1:2]\n"
                        "p = subprocess.Popen(sbx + ['session', 'logs', 's', '-f'],\n"
                        "                     stdout=subprocess.PIPE)\n"
                        "first = p.stdout.readline()\n"
                        "if sys.argv[2] == 'stop':\n"
                        "    subprocess.run(sbx + ['session', 'stop', 's', '--time', '100ms'])\n"
                        "else:\n"
                        "    events = subprocess.run(sbx + ['session', 'events', 's'],\n"
                        "                            stdout=subprocess.PIPE).stdout\n"
                        "    pids = [e['pid'] for e in map(json.loads, events.splitlines()) if "
                        "'pid' in e]\n"
                        "    os.kill(pids[-1], signal.SIGKILL)\n"
                        "print(first.decode().strip(), p.stdout.read(), p.wait())\n",
                        sbx_path(),
                        how},
               .env = session.spec({}).env,
               .as = &subject()});
      INFO(how);
      INFO(o.show());
      CHECK(o.out == "begin b'' 0\n");
      CHECK(session.logs({id}).out == "begin\n");
      // Also when it runs again: the exec has ended, and a crash is told.
      REQUIRE(session.sbx({"session", "start", "s"}).code == 0);
      CHECK(session.logs({id, "-f"}).out == "begin\n");
      const Outcome events = session.sbx({"session", "events", "s"});
      CHECK(contains(events.out, "\"crashed\"") == (how == "kill"));
    }
  }

  TEST_CASE("logs: of much output the newest is kept, and what is not is counted to the byte") {
    const Session session;
    const Outcome o = session.exec("seq -f '%011.0f' 1 3000000 >/work/all; cat /work/all");
    REQUIRE(o.code == 0);
    REQUIRE(o.out.size() == 36000000);
    const Outcome kept = session.logs();
    CHECK(kept.code == 0);
    CHECK(kept.out.size() > 8000000);
    CHECK(kept.out.size() <= 16777216);
    CHECK(o.out.ends_with(kept.out));
    const std::string dropped = std::to_string(o.out.size() - kept.out.size());
    CHECK(contains(kept.err, dropped + " bytes of the output of exec 1 are not kept"));
    const Outcome json = session.logs({"--json"});
    CHECK(field(lines_of(json.out).front(), "/stream") == "dropped");
    CHECK(field(lines_of(json.out).front(), "/out_bytes") == dropped);
  }

  TEST_CASE("logs: as JSON a character written in halves is whole, other bytes are base64") {
    const Session session;
    REQUIRE(session
                .exec("printf 'a\\xf0\\x9f'; sleep 0.2; printf '\\x98\\x80b'; sleep 0.2; "
                      "printf '\\xff\\xfe' >&2")
                .code == 0);
    std::string out;
    std::string err;
    for (const std::string& line : lines_of(session.logs({"--json"}).out)) {
      CHECK(field(line, "/exec") == "1");
      out += field(line, "/text");
      err += field(line, "/base64");
    }
    CHECK(out ==
          "a\xf0\x9f\x98\x80"
          "b");
    CHECK(err == "//4=");
  }

  TEST_CASE("logs: since passes over what is older") {
    const Session session;
    REQUIRE(session.exec("echo old; sleep 2; echo new").code == 0);
    const std::string both = session.logs({"--since", "1h"}).out;
    CHECK(both == "old\nnew\n");
    const std::string last = lines_of(session.logs({"--json"}).out).back();
    CHECK(session.logs({"--since", field(last, "/time")}).out == "new\n");
    CHECK(session.logs({"--since", "2200-01-01"}).out.empty());
    const Outcome wrong = session.logs({"--since", "yesterday"});
    CHECK(wrong.code == 2);
    CHECK(contains(wrong.err, "write 10m (ago)"));
  }

  TEST_CASE("logs: an exec without output prints nothing, one that never was is an error") {
    const Session session;
    const Outcome none = session.logs();
    CHECK(none.code == 2);
    CHECK(contains(none.err, "nothing was executed in session s yet"));
    REQUIRE(session.exec("true").code == 0);
    const Outcome empty = session.logs({"-f"});
    INFO(empty.show());
    CHECK(empty.code == 0);
    CHECK(empty.out.empty());
    CHECK(empty.err.empty());
    CHECK(session.logs({"7"}).code == 2);
    CHECK(session.logs({"../1"}).code == 2);
    CHECK(session.logs({"--names"}).out == "1\n");
    const Outcome nobody = session.sbx({"session", "logs", "nobody"});
    CHECK(nobody.code == 2);
    CHECK(contains(nobody.err, "nobody"));
  }

  TEST_CASE("logs: a service is named by its name, its last start is meant") {
    const Session session({"--set",
                           "services.web={command: [bash, -c, \"echo up; exec sleep 1000\"]}",
                           "--set",
                           "services.once={command: [bash, -c, \"echo 1 >&2\"]}"});
    const Outcome once = session.logs({"once", "-f"});
    CHECK(once.code == 0);
    CHECK(once.err == "1\n");
    REQUIRE(session.sbx({"session", "stop", "s"}).code == 0);
    CHECK(session.logs({"web"}).out == "up\n");
    CHECK(session.logs({"--names"}).out == "1\n2\nonce\nweb\n");
    REQUIRE(session.sbx({"session", "start", "s"}).code == 0);
    CHECK(session.logs({"once", "-f"}).err == "1\n");
    CHECK(session.logs({"--names"}).out == "1\n2\n3\n4\nonce\nweb\n");
    CHECK(session.logs({"nope"}).code == 2);
  }

  TEST_CASE("logs: Ctrl-C ends following as a signal does, a closed pipe ends it in silence") {
    const Session session;
    const std::string id = session.detached("while :; do echo line; sleep 0.05; done");
    const Outcome o =
        run({.argv = {"/usr/bin/python3",
                      "-c",
                      "import signal, subprocess, sys\n"
                      "args = [sys.argv[1], 'session', 'logs', 's', '-f']\n"
                      "p = subprocess.Popen(args, stdout=subprocess.PIPE)\n"
                      "p.stdout.readline()\n"
                      "p.send_signal(signal.SIGINT)\n"
                      "print(p.wait() in (-signal.SIGINT, 130))\n"
                      "p = subprocess.Popen(args, stdout=subprocess.PIPE, restore_signals=True)\n"
                      "p.stdout.readline()\n"
                      "p.stdout.close()\n"
                      "print(p.wait() == -signal.SIGPIPE)\n",
                      sbx_path()},
             .env = session.spec({}).env,
             .as = &subject()});
    INFO(o.show());
    CHECK(o.out == "True\nTrue\n");
    CHECK(o.err.empty());
  }

  TEST_CASE("events: what happened stands there in order, and is there after the stop") {
    const Session session;
    REQUIRE(session.exec("exit 3").code == 3);
    REQUIRE(session.sbx({"session", "pause", "s"}).code == 0);
    REQUIRE(session.sbx({"session", "resume", "s"}).code == 0);
    REQUIRE(session.sbx({"session", "stop", "s"}).code == 0);
    const Outcome o = session.sbx({"session", "events", "s"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(events_in(o.out) ==
          std::vector<std::string>{
              "created", "started", "exec_started", "exec_exited", "paused", "resumed", "stopped"});
    CHECK(session.sbx({"session", "events", "s", "--since", "2200-01-01"}).out.empty());
    for (const std::string& line : lines_of(o.out)) {
      if (field(line, "/event") == "exec_exited") CHECK(field(line, "/exit_status") == "3");
    }
  }

  TEST_CASE("events: follow goes on over a stop and a start, and ends with the session") {
    const Session session;
    const Outcome o =
        run({.argv = {"/usr/bin/python3",
                      "-c",
                      "import json, subprocess, sys\n"
                      "sbx = sys.argv[1:2]\n"
                      "p = subprocess.Popen(sbx + ['session', 'events', 's', '--follow'],\n"
                      "                     stdout=subprocess.PIPE)\n"
                      "def until(word):\n"
                      "    for line in p.stdout:\n"
                      "        if json.loads(line)['event'] == word: return True\n"
                      "    return False\n"
                      "print(until('started'))\n"
                      "subprocess.run(sbx + ['session', 'stop', 's'])\n"
                      "print(until('stopped'))\n"
                      "subprocess.run(sbx + ['session', 'start', 's', '-q'])\n"
                      "print(until('started'))\n"
                      "subprocess.run(sbx + ['session', 'rm', '-f', 's'])\n"
                      "p.stdout.read()\n"
                      "print(p.wait())\n",
                      sbx_path()},
             .env = session.spec({}).env,
             .as = &subject()});
    INFO(o.show());
    CHECK(o.out == "True\nTrue\nTrue\n0\n");
  }
}

}  // namespace sbx::test
