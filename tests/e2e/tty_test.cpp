// tty_test: terminals: size, resize, job control, restored modes, and nothing typed into ours.
#include <sys/ioctl.h>

#include <csignal>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/pty.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

Spec on(Pty& pty, Args args) {
  Spec spec = sbx_spec(std::move(args));
  spec.pty = &pty;
  return spec;
}

/// Runs it on a terminal and returns what the screen shows at the end.
std::string shown(Pty& pty, Args args, Outcome* outcome = nullptr) {
  Child child(on(pty, std::move(args)));
  for (int i = 0; i < 600 && child.running(); ++i) {
    pty.watch(0.05);
  }
  const Outcome o = child.wait();
  if (outcome != nullptr) {
    *outcome = o;
  }
  pty.watch(0.1);
  return pty.screen();
}

int waiting_input(const Pty& pty) {
  int n = -1;
  ::ioctl(pty.slave(), FIONREAD, &n);
  return n;
}

/// TIOCSTI on descriptors 0 to 2, also with upper bits set in the request: what each call said.
const std::string kPush = std::string(kPythonSyscalls) +
                          "import sys\n"
                          "for fd in (0, 1, 2):\n"
                          "    for request in (0x5412, 0x100005412, 0xffffffff00005412, 0x541c):\n"
                          "        b = ctypes.create_string_buffer(b'x')\n"
                          "        print(fd, hex(request), syscall(16, fd, request, b))\n";

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("tty: -t gives the program a terminal of our size, every time") {
    SKIP_UNLESS("pty");
    const int rounds = slowness() > 1 ? 10 : 100;
    for (int i = 0; i < rounds; ++i) {
      Pty pty(41, 62);
      Outcome o;
      const std::string screen = shown(pty, command_args({"stty", "size"}, {"-t"}), &o);
      INFO(i);
      INFO(screen);
      REQUIRE(o.code == 0);
      REQUIRE(contains(screen, "41 62\r\n"));
    }
  }

  TEST_CASE("tty: a resize of our terminal reaches the program") {
    SKIP_UNLESS("pty");
    Pty pty(41, 62);
    Child child(on(pty,
                   bash_args("trap 'printf \"now \"; stty size' WINCH; echo ready; "
                             "for i in $(seq 300); do sleep 0.1; done",
                             {"-t"})));
    REQUIRE(pty.wait_for("ready", 20));
    pty.resize(17, 99);
    const bool seen = pty.wait_for("now 17 99", 3);
    INFO(pty.screen());
    CHECK(seen);
  }

  TEST_CASE("tty: all three descriptors are the terminal, and it is the controlling one") {
    SKIP_UNLESS("pty");
    Pty pty(24, 80);
    const std::string screen =
        shown(pty,
              bash_args("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; echo ctl > /dev/tty; tty",
                        {"-t"}));
    INFO(screen);
    CHECK(contains(screen, "all\r\n"));
    CHECK(contains(screen, "ctl\r\n"));
    CHECK(contains(screen, "/dev/pts/"));
  }

  TEST_CASE("tty: an interactive shell inside has job control") {
    SKIP_UNLESS("pty");
    Pty pty(24, 80);
    Child child(on(pty, command_args({"bash", "--norc", "-i"}, {"-t"})));
    REQUIRE(pty.wait_for("$ ", 20));
    pty.type("sleep 100\r");
    pty.watch(0.5 * slowness());
    pty.type("\x1a");
    const bool stopped = pty.wait_for("Stopped", 10);
    INFO(pty.screen());
    CHECK(stopped);
    CHECK(!contains(pty.screen(), "no job control"));
    pty.type("exit 9\r");  // the shell asks once more while a job is stopped
    REQUIRE(pty.wait_for("There are stopped jobs", 10));
    pty.type("exit 9\r");
    for (int i = 0; i < 200 && child.running(); ++i) {
      pty.watch(0.05);
    }
    CHECK(child.wait().code == 9);
  }

  TEST_CASE("tty: what is typed arrives, and the end of input too") {
    SKIP_UNLESS("pty");
    Pty pty(24, 80);
    Child child(on(pty, bash_args("read -r a; echo \"<$a>\"; cat; echo end", {"-t"})));
    pty.watch(0.5 * slowness());
    pty.type("word\r");
    REQUIRE(pty.wait_for("<word>", 10));
    pty.type("\x04");
    CHECK(pty.wait_for("end", 10));
  }

  TEST_CASE("tty: Ctrl-C with -t goes to the program") {
    SKIP_UNLESS("pty");
    Pty pty(24, 80);
    Child child(on(pty,
                   // Without children: bash takes a signal for handled by one that just ended well.
                   bash_args("trap 'echo caught; exit 3' INT; echo ready; "
                             "for ((i = 0; i < 10000000; ++i)); do :; done",
                             {"-t"})));
    REQUIRE(pty.wait_for("ready", 20));
    pty.type("\x03");
    CHECK(pty.wait_for("caught", 10));
    CHECK(child.wait().code == 3);
  }

  TEST_CASE("tty: Ctrl-C without -t ends the job, sbx exits with 130") {
    SKIP_UNLESS("pty");
    Pty pty(24, 80);
    Child child(on(pty, bash_args("echo ready; sleep 100")));
    REQUIRE(pty.wait_for("ready", 20));
    pty.type("\x03");
    const Outcome o = child.wait();
    INFO(o.show());
    CHECK(o.code == 130);
  }

  TEST_CASE("tty: our terminal has its old mode after every kind of end") {
    SKIP_UNLESS("pty");
    Pty pty(24, 80);
    const termios before = pty.attributes();
    shown(pty, bash_args("stty raw -echo; exit 1", {"-t"}));
    CHECK(same_mode(before, pty.attributes()));
    shown(pty, bash_args("kill -9 $$", {"-t"}));
    CHECK(same_mode(before, pty.attributes()));
    shown(pty, bash_args("sleep 20", {"-t", "--timeout", "1s"}));
    CHECK(same_mode(before, pty.attributes()));
    shown(pty, command_args({"no-such-program"}, {"-t"}));
    CHECK(same_mode(before, pty.attributes()));
    for (const int sig : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
      pty.clear();
      Child child(on(pty, bash_args("echo ready; sleep 100", {"-t"})));
      REQUIRE(pty.wait_for("ready", 20));
      child.kill(sig);
      const Outcome o = child.wait();
      INFO("signal " << sig << ": " << o.show());
      CHECK(!o.timed_out);
      CHECK(same_mode(before, pty.attributes()));
    }
  }

  TEST_CASE("tty: a program cannot type into our terminal, without and with -t") {
    SKIP_UNLESS("pty");
    for (const Args& flags : {Args{}, Args{"-t"}, Args{"--stdin"}}) {
      Pty pty(60, 100);
      Outcome o;
      const std::string screen = shown(pty, python_args(kPush, flags), &o);
      INFO(screen);
      CHECK(o.code == 0);
      CHECK(!contains(screen, " ok"));
      CHECK(contains(screen, "EPERM"));
      CHECK(waiting_input(pty) == 0);
    }
  }

  TEST_CASE("tty: -t without a terminal of our own is a clear error or works without one") {
    const Outcome o = command({"true"}, {"-t"});
    INFO(o.show());
    CHECK((o.code == 0 || o.code == 2));
    CHECK((o.code == 0 || contains(o.err, "terminal")));
  }

  TEST_CASE("tty: names from inside are shown without their control codes") {
    const Outcome o =
        command({"\x1b]0;title\x07\x9b"
                 "31mevil"});
    INFO(o.show());
    CHECK(o.code == 127);
    CHECK(!contains(o.err, "\x1b"));
    CHECK(!contains(o.err, "\x07"));
    CHECK(contains(o.err, "evil"));
  }

  TEST_CASE("tty: messages carry no colour codes into a pipe") {
    const Outcome o = call({"run", "--no-such-flag"});
    CHECK(!contains(o.err, "\x1b"));
    const Outcome help = call({"run", "--help"});
    CHECK(help.code == 0);
    CHECK(!contains(help.out, "\x1b"));
  }
}

}  // namespace sbx::test
