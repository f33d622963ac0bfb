// session_look_test: what runs in a session and what it uses, told whatever state it is in; and
// that a paused one can be killed and removed.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// A session "s" in a state directory of its own, removed at the end.
class Looked {
 public:
  Looked() {
    const Outcome made = sbx({"session", "start", "s"});
    INFO(made.show());
    REQUIRE(made.code == 0);
  }
  ~Looked() { sbx({"session", "rm", "-f", "s"}); }
  Looked(const Looked&) = delete;
  Looked& operator=(const Looked&) = delete;

  Spec spec(Args args) const {
    Spec spec = sbx_spec(std::move(args));
    spec.env = environment_of(subject());
    spec.env.push_back("SBX_STATE_DIR=" + dir_.at("state"));
    spec.clean_env = false;
    return spec;
  }
  Outcome sbx(Args args) const { return run(spec(std::move(args))); }
  /// The same, and it has to go well.
  std::string out(Args args) const {
    const Outcome o = sbx(std::move(args));
    INFO(o.show());
    REQUIRE(o.code == 0);
    return o.out;
  }
  /// A background exec; its number.
  std::string start(Args argv) const {
    Args args{"session", "exec", "s", "-d", "--"};
    args.insert(args.end(), argv.begin(), argv.end());
    return trimmed(out(args));
  }
  std::vector<std::string> processes() const {
    return lines_of(out({"session", "ps", "s", "--json"}));
  }
  /// The line of the process with that command, waited for; empty: there is none.
  std::string process(const std::string& command) const {
    for (int i = 0; i < 200; ++i) {
      for (const std::string& line : processes()) {
        if (field(line, "/command") == command) return line;
      }
      ::usleep(20'000);
    }
    return {};
  }
  std::string stats() const { return out({"session", "stats", "s", "--json"}); }
  std::string state() const { return field(out({"session", "show", "s", "--json"}), "/state"); }

 private:
  WorkDir dir_;
};

bool is_there(int pid) {
  // Where the test process is a subreaper the dead wait for it: a zombie is gone.
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end, 3) != ") Z";
}

/// Whether the process goes within ten seconds.
bool goes(int pid) {
  for (int i = 0; i < 500 && is_there(pid); ++i) {
    ::usleep(20'000);
  }
  return !is_there(pid);
}

}  // namespace

TEST_SUITE("session") {
  TEST_CASE("session ps: numbers, exec, user and command line of each process, also while paused") {
    const Looked s;
    const std::string first = s.start({"sleep", "1111"});
    const std::string second = s.start({"sh", "-c", "sleep 2222 & wait"});
    const std::string one = s.process("sleep 1111");
    const std::string two = s.process("sleep 2222");
    CAPTURE(one);
    CAPTURE(two);
    CHECK(field(one, "/exec") == first);
    CHECK(field(one, "/parent") == "1");
    CHECK(field(one, "/uid") == "1000");
    CHECK(field(one, "/name") == "sleep");
    CHECK(field(one, "/started").size() == 24);
    CHECK(field(two, "/exec") == second);
    CHECK(is_there(std::stoi(field(two, "/host_pid"))));
    const std::string table = s.out({"session", "ps", "s"});
    CAPTURE(table);
    CHECK(table.starts_with("PID  PARENT  EXEC"));
    CHECK(contains(table, "sleep 1111\n"));
    s.out({"session", "pause", "s"});
    CHECK(s.process("sleep 2222") != "");
    CHECK(s.state() == "paused");
    s.out({"session", "stop", "s"});
    CHECK(s.processes().empty());
    CHECK(lines_of(s.out({"session", "ps", "s"})).size() == 1);
    CHECK(s.sbx({"session", "ps", "none"}).code == 2);
  }

  TEST_CASE("session ps: a command line cannot speak to the terminal") {
    const Looked s;
    s.start({"sh", "-c", "exec sleep 3333 #\x1b[2J\xff\nroot"});
    s.start({"sh", "-c", "while :; do sleep 4444; done #\x1b[2J\xff\nroot"});
    CHECK(s.process("sleep 4444") != "");
    const std::string table = s.out({"session", "ps", "s"});
    CAPTURE(table);
    CHECK_FALSE(contains(table, "\x1b"));
    CHECK_FALSE(contains(table, "\xff"));
    CHECK(contains(table, "#\\x1b[2J\\xff\\nroot"));
  }

  TEST_CASE("session stats: figures of a running and a paused session, the disk of a stopped one") {
    const Looked s;
    s.out({"session", "exec", "s", "--", "sh", "-c", "head -c 3000000 /dev/zero > big"});
    s.start({"sh", "-c", "while :; do :; done"});
    std::string now;
    for (int i = 0; i < 200 && (now.empty() || field(now, "/cpu_s") < "0.05"); ++i) {
      now = s.stats();
    }
    CAPTURE(now);
    CHECK(field(now, "/state") == "running");
    CHECK(field(now, "/processes") == "1");
    CHECK(std::stod(field(now, "/cpu_s")) > 0);
    CHECK(std::stoll(field(now, "/memory_bytes")) > 0);
    CHECK(std::stoll(field(now, "/disk_bytes")) >= 3'000'000);
    CHECK(std::stoll(field(now, "/disk_files")) >= 1);
    s.out({"session", "pause", "s"});
    const std::string before = s.stats();
    CHECK(field(before, "/state") == "paused");
    CHECK(field(before, "/processes") == "1");
    CHECK(contains(s.out({"session", "stats", "s"}), "processes  1\n"));
    s.out({"session", "stop", "s"});
    const std::string stopped = s.stats();
    CAPTURE(stopped);
    CHECK(field(stopped, "/state") == "stopped");
    CHECK(field(stopped, "/cpu_s") == "null");
    CHECK(std::stoll(field(stopped, "/disk_bytes")) >= 3'000'000);
  }

  TEST_CASE("session stats: --watch goes on until the session ends") {
    const Looked s;
    s.start({"sleep", "1111"});
    Child watch(s.spec({"session", "stats", "s", "--watch", "--json"}));
    CHECK(watch.wait_for_text("\"cpu_percent\":null", 30));
    CHECK(watch.wait_for_text("\"cpu_percent\":0", 30));
    s.out({"session", "stop", "s"});
    const Outcome o = watch.wait();
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(field(lines_of(o.out).back(), "/state") == "stopped");
  }

  TEST_CASE("session kill: SIGKILL ends an exec of a paused session, which stays paused") {
    const Looked s;
    const std::string victim = s.start({"sleep", "1111"});
    s.start({"sleep", "2222"});
    CHECK(s.process("sleep 1111") != "");
    CHECK(s.process("sleep 2222") != "");
    s.out({"session", "pause", "s"});
    s.out({"session", "kill", "-s", "KILL", "s", victim});
    const Outcome waited = s.sbx({"session", "wait", "s", victim});
    INFO(waited.show());
    CHECK(waited.code == 128 + SIGKILL);
    CHECK(s.state() == "paused");
    CHECK(s.processes().size() == 1);
  }

  TEST_CASE(
      "session: what a killed supervisor leaves of a paused session goes with the next call") {
    const Looked s;
    s.start({"sleep", "1111"});
    const int pid = std::stoi(field(s.process("sleep 1111"), "/host_pid"));
    s.out({"session", "pause", "s"});
    const std::string shown = s.out({"session", "show", "s", "--json"});
    INFO(shown);
    const std::string supervisor = field(shown, "/supervisor_pid");
    REQUIRE(!supervisor.empty());
    REQUIRE(::kill(std::stoi(supervisor), SIGKILL) == 0);
    CHECK(goes(std::stoi(supervisor)));
    s.out({"session", "ls"});
    CHECK(goes(pid));
    CHECK(s.state() == "crashed");
    s.out({"session", "start", "s"});
    CHECK(s.state() == "running");
  }

  TEST_CASE("session rm -f: a paused session goes with all its processes") {
    const Looked s;
    s.start({"sleep", "1111"});
    const int pid = std::stoi(field(s.process("sleep 1111"), "/host_pid"));
    s.out({"session", "pause", "s"});
    s.out({"session", "rm", "-f", "s"});
    CHECK_FALSE(is_there(pid));
  }
}

}  // namespace sbx::test
