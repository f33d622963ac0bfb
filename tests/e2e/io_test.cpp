// io_test: stdin, stdout and stderr of `sbx run`: bytes, order, ends, caps and odd destinations.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <thread>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/pty.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

/// Runs a shell line that calls sbx as "$SBX", as the subject.
Outcome shell(const std::string& line, const std::string& cwd = "/tmp") {
  Spec spec;
  spec.argv = {"/bin/bash", "-c", line};
  spec.env = environment_of(subject());
  spec.env.push_back("SBX=" + sbx_path());
  spec.as = &subject();
  spec.cwd = cwd;
  return run(spec);
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("io: a run does not wait for a stdin that nobody writes or closes") {
    const WorkDir dir;
    const std::string fifo = dir.at("fifo");
    REQUIRE(::mkfifo(fifo.c_str(), 0666) == 0);
    const int hold = ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);
    Spec spec = sbx_spec(command_args({"echo", "hi"}));
    spec.in = hold;
    spec.timeout = 20;
    const Outcome o = run(spec);
    ::close(hold);
    INFO(o.show());
    CHECK(o.out == "hi\n");
    CHECK(o.code == 0);
  }

  TEST_CASE("io: a program that ends does not wait for an open stdin that it was given") {
    const WorkDir dir;
    const std::string fifo = dir.at("fifo");
    REQUIRE(::mkfifo(fifo.c_str(), 0666) == 0);
    const int hold = ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);
    Spec spec = sbx_spec(command_args({"echo", "hi"}, {"--stdin"}));
    spec.in = hold;
    spec.timeout = 20;
    const Outcome o = run(spec);
    ::close(hold);
    INFO(o.show());
    CHECK(o.out == "hi\n");
    CHECK(o.code == 0);
  }

  TEST_CASE("io: without --stdin not one byte of a script's input is taken") {
    const Outcome o = shell(
        "printf 'a\\nb\\nc\\n' | while read -r name; do \"$SBX\" run -p bash -- echo \"got "
        "$name\"; "
        "done");
    INFO(o.show());
    CHECK(o.out == "got a\ngot b\ngot c\n");
  }

  TEST_CASE("io: without --stdin the program reads an empty stdin") {
    const Outcome o = shell("echo secret | \"$SBX\" run -p bash -c 'wc -c'");
    INFO(o.show());
    CHECK(trimmed(o.out) == "0");
  }

  TEST_CASE("io: --stdin hands over every byte and the end") {
    std::string bytes;
    for (int i = 0; i < 300000; ++i) {
      bytes += static_cast<char>((i * 131 + i / 7) % 256);
    }
    Spec spec = sbx_spec(command_args({"cat"}, {"--stdin"}));
    spec.input = bytes;
    const Outcome o = run(spec);
    INFO(o.err);
    CHECK(o.code == 0);
    CHECK(o.out == bytes);
  }

  TEST_CASE("io: --stdin from a regular file works and leaves the file as it was") {
    const WorkDir dir;
    const std::string file = dir.write("in.txt", "one\ntwo\n");
    const Outcome o = shell("\"$SBX\" run -p bash --stdin -- cat < '" + file + "'");
    INFO(o.show());
    CHECK(o.out == "one\ntwo\n");
    CHECK(slurp(file) == "one\ntwo\n");
  }

  TEST_CASE("io: a script comes on stdin with a single dash") {
    Spec spec = sbx_spec({"run", "-p", "python", "-", "x", "y"});
    spec.input = "import sys\nprint(sys.argv[1:])\n";
    const Outcome o = run(spec);
    INFO(o.show());
    CHECK(o.out == "['x', 'y']\n");
  }

  TEST_CASE("io: both streams keep their own bytes and their own order") {
    const Outcome o = bash("for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done");
    CHECK(o.out == "out1\nout2\nout3\nout4\nout5\n");
    CHECK(without_warnings(o.err) == "err1\nerr2\nerr3\nerr4\nerr5\n");
  }

  TEST_CASE("io: every byte value passes unchanged") {
    const Outcome o = python("import sys; sys.stdout.buffer.write(bytes(range(256)) * 100)");
    std::string want;
    for (int i = 0; i < 25600; ++i) {
      want += static_cast<char>(i % 256);
    }
    CHECK(o.code == 0);
    CHECK(o.out == want);
  }

  TEST_CASE("io: a character written in two halves is not damaged in JSON") {
    const Outcome o = python(
        "import sys, time\nw = sys.stdout.buffer\nw.write(b'\\xf0\\x9f'); w.flush()\n"
        "time.sleep(0.3)\nw.write(b'\\x98\\x80'); w.flush()",
        {"--json"});
    INFO(o.show());
    CHECK(field(o.out, "/encoding") == "utf-8");
    CHECK(field(o.out, "/stdout") == "\xf0\x9f\x98\x80");
  }

  TEST_CASE("io: output that is not UTF-8 comes as base64 in JSON") {
    const Outcome o = python("import sys; sys.stdout.buffer.write(b'\\xff\\x00\\xfe')", {"--json"});
    INFO(o.show());
    CHECK(field(o.out, "/encoding") == "base64");
    CHECK(field(o.out, "/stdout") == "/wD+");
    CHECK(field(o.out, "/stdout_bytes") == "3");
  }

  TEST_CASE("io: output past the cap is cut, counted and marked, and nobody is blocked") {
    const Outcome o = bash("head -c 50000000 /dev/zero | tr '\\0' x; exit 3",
                           {"--set", "limits.output=1M", "--json"});
    INFO(o.err);
    CHECK(o.code == 3);
    CHECK(field(o.out, "/truncated") == "true");
    CHECK(field(o.out, "/stdout_bytes") == "50000000");
    CHECK(field(o.out, "/stdout").size() == 1048576);
  }

  TEST_CASE("io: output past the cap is cut in plain mode too, and said on stderr") {
    const Outcome o = bash("head -c 20000000 /dev/zero; exit 3", {"--set", "limits.output=1M"});
    INFO(o.err);
    CHECK(o.code == 3);
    CHECK(o.out.size() == 1048576);
    CHECK(contains(o.err, "output"));
  }

  TEST_CASE("io: a child that keeps stdout open does not keep the run alive") {
    const Outcome o = bash("sleep 60 & echo done");
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out == "done\n");
    CHECK(o.seconds < 15 * slowness());
  }

  TEST_CASE("io: output written just before the end is all there") {
    for (int i = 0; i < (slowness() > 1 ? 5 : 30); ++i) {
      const Outcome o = bash("head -c 200000 /dev/zero; exit 5");
      REQUIRE(o.code == 5);
      REQUIRE(o.out.size() == 200000);
    }
  }

  TEST_CASE("io: gigabytes pass, byte for byte") {
    const std::string size = slowness() > 1 ? "64M" : "2G";
    const Outcome o =
        shell("set -o pipefail; \"$SBX\" run -p bash --set limits.output=8G -- head -c " + size +
              " /dev/zero | wc -c");
    INFO(o.show());
    CHECK(trimmed(o.out) == (slowness() > 1 ? "67108864" : "2147483648"));
    CHECK(o.code == 0);
  }

  TEST_CASE("io: large random output has the right hash") {
    const Outcome o = shell(
        "\"$SBX\" run -p python -c 'import os, sys, hashlib\nd = os.urandom(1 << 20) * 24\n"
        "sys.stdout.buffer.write(d)\nprint(hashlib.sha256(d).hexdigest(), file=sys.stderr)' "
        "| sha256sum");
    INFO(o.show());
    REQUIRE(o.out.size() > 64);
    CHECK(contains(o.err, o.out.substr(0, 64)));
  }

  TEST_CASE("io: stdout appended to a file keeps what was there") {
    const WorkDir dir;
    dir.write("log", "first\n");
    const Outcome o = shell(
        "\"$SBX\" run -p bash -- echo second >> log; "
        "\"$SBX\" run -p bash -- echo third >> log",
        dir.path());
    INFO(o.show());
    CHECK(slurp(dir.at("log")) == "first\nsecond\nthird\n");
  }

  TEST_CASE("io: stdout and stderr into one file are both there") {
    const WorkDir dir;
    const Outcome o =
        shell("\"$SBX\" run -p bash -c 'echo out; echo err >&2' > both 2>&1", dir.path());
    INFO(o.show());
    const std::string both = slurp(dir.at("both"));
    CHECK(contains(both, "out\n"));
    CHECK(contains(both, "err\n"));
  }

  TEST_CASE("io: a file as stdout is written from the shell's own offset") {
    const WorkDir dir;
    const Outcome o =
        shell("{ echo a; \"$SBX\" run -p bash -- echo b; echo c; } > file", dir.path());
    INFO(o.show());
    CHECK(slurp(dir.at("file")) == "a\nb\nc\n");
  }

  TEST_CASE("io: a terminal as stdout gets the bytes, and the program sees no terminal") {
    Pty pty(24, 80);
    Spec spec = sbx_spec(bash_args("if [ -t 1 ]; then echo tty; else echo no-tty; fi"));
    spec.pty = &pty;
    const Outcome o = run(spec);
    pty.watch(0.1);
    INFO(pty.screen());
    CHECK(o.code == 0);
    CHECK(contains(pty.screen(), "no-tty\r\n"));
  }

  TEST_CASE("io: a socket as stdout gets the bytes") {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    Spec spec = sbx_spec(bash_args("head -c 3000000 /dev/zero"));
    spec.out = ends[1];
    Child child(spec);
    ::close(ends[1]);
    size_t total = 0;
    std::array<char, 65536> buffer{};
    for (ssize_t n = 1; n > 0;) {
      n = ::read(ends[0], buffer.data(), buffer.size());
      total += n > 0 ? static_cast<size_t>(n) : 0;
    }
    ::close(ends[0]);
    CHECK(child.wait().code == 0);
    CHECK(total == 3000000);
  }

  TEST_CASE("io: a slow reader gets every byte") {
    const Outcome o = shell(
        "\"$SBX\" run -p bash -- head -c 5000000 /dev/zero | { sleep 1; head -c 10; sleep 0.5; "
        "cat; } "
        "| wc -c");
    CHECK(trimmed(o.out) == "5000000");
  }

  TEST_CASE("io: a full device as stdout is an error that is said, not a hang") {
    const Outcome o = shell("\"$SBX\" run -p bash -c 'echo hello; exit 0' > /dev/full");
    INFO(o.show());
    CHECK(!o.timed_out);
    CHECK(o.code != 0);
    CHECK(contains(o.err, "No space left"));
  }

  TEST_CASE("io: a reader that goes away ends a program that goes on writing") {
    const Outcome o = shell("\"$SBX\" run -p bash -- yes | head -n 2; echo \"${PIPESTATUS[0]}\"");
    INFO(o.show());
    CHECK(o.out == "y\ny\n141\n");
    CHECK(o.seconds < 20 * slowness());
  }

  TEST_CASE("io: closed standard descriptors on our side do no harm") {
    const Outcome o = shell("\"$SBX\" run -p bash -c 'exit 6' <&- >&- 2>&-; echo $?");
    INFO(o.show());
    CHECK(o.out == "6\n");
  }

  TEST_CASE("io: a stdout that was closed before the start is never another file") {
    const WorkDir dir;
    const Outcome o =
        shell("\"$SBX\" run -p bash -o out -c 'echo lost; echo kept > f' >&-; echo $?", dir.path());
    INFO(o.show());
    CHECK(slurp(dir.at("out/f")) == "kept\n");
  }

  TEST_CASE("io: without an end of line and without any output nothing is added") {
    CHECK(bash("printf abc").out == "abc");
    const Outcome o = bash("true");
    CHECK(o.out.empty());
    CHECK(without_warnings(o.err).empty());
  }

  TEST_CASE("io: our stdout is not left non-blocking") {
    const Outcome o = shell(
        "\"$SBX\" run -p bash -- head -c 1000000 /dev/zero > /dev/null; "
        "{ \"$SBX\" run -p bash -- echo x >&5; "
        "python3 -c 'import fcntl; print(bool(fcntl.fcntl(5, fcntl.F_GETFL) & 2048))'; } 5>&1 "
        "| cat");
    INFO(o.show());
    CHECK(contains(o.out, "False"));
  }
}

}  // namespace sbx::test
