// session_cp_test: copies into sessions, out of them and between them, with hostile insides.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// A session "s" and a directory of the host's, both of the subject, gone at the end.
class Copies {
 public:
  Copies() {
    const Outcome made = sbx({"session", "start", "s", "-p", "bash"});
    INFO(made.show());
    REQUIRE(made.code == 0);
  }
  ~Copies() { sbx({"session", "rm", "-f", "s", "s2"}); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  Spec spec(Args args) const {
    Spec spec = sbx_spec(std::move(args));
    spec.env = environment_of(subject());
    spec.env.push_back("SBX_STATE_DIR=" + dir_.at("state"));
    spec.clean_env = false;
    spec.cwd = dir_.path();
    return spec;
  }
  Outcome sbx(Args args) const { return run(spec(std::move(args))); }
  Outcome cp(Args args) const {
    args.insert(args.begin(), {"session", "cp"});
    return sbx(std::move(args));
  }
  /// A command inside.
  Outcome in(const std::string& code) const {
    return sbx({"session", "exec", "s", "--", "bash", "-c", code});
  }
  /// A command outside, as the subject, in the directory.
  Outcome out(const std::string& code) const {
    Spec spec = this->spec({});
    spec.argv = {"/bin/bash", "-c", code};
    return run(spec);
  }
  void make(const std::string& code) const {
    const Outcome o = out(code);
    INFO(o.show());
    REQUIRE(o.code == 0);
  }
  const WorkDir& dir() const { return dir_; }

 private:
  WorkDir dir_;
};

void check_ok(const Outcome& o) {
  INFO(o.show());
  CHECK(o.code == 0);
}

/// What is the same inside and outside of a tree, one line each.
constexpr const char* kDescribe =
    "cd $T && find . -printf '%p %y %m %s %T@ %n %l\\n' | sed 's/\\(d [0-9]*\\) [0-9]*/\\1/' | "
    "sort";

std::string described(const Outcome& o) {
  INFO(o.show());
  CHECK(o.code == 0);
  return o.out;
}

}  // namespace

TEST_SUITE("session") {
  TEST_CASE("cp: a tree goes in and comes out as it was, owned by who has it") {
    const Copies s;
    s.make(
        "mkdir -p t/sub t/empty && echo a > t/sub/a && ln t/sub/a t/b && ln -s ../x t/l && "
        "chmod 600 t/b && chmod 711 t/sub && touch -d '2001-02-03 04:05:06.123456789' t/b t/empty "
        "&& touch -hd '1990-01-01 00:00:00.5' t/l && head -c 3000000 /dev/urandom > t/big && "
        "touch -d 2002-01-01 t/sub t");
    check_ok(s.cp({"t", "s:"}));
    const std::string describe = kDescribe;
    const std::string before = described(s.out("T=t; " + describe));
    CHECK(described(s.in("T=t; " + describe)) == before);
    check_ok(s.in("test -O t/b && test -O t/sub"));
    check_ok(s.cp({"s:t", "back"}));
    CHECK(described(s.out("T=back; " + describe)) == before);
    check_ok(s.out("test -O back/b && cmp t/big back/big"));
    // Again over what is there: the same, but for the directory that was named.
    check_ok(s.cp({"s:t/.", "back"}));
    check_ok(s.out("touch -d 2002-01-01 back"));
    CHECK(described(s.out("T=back; " + describe)) == before);
  }

  TEST_CASE("cp: names are any bytes, on both sides") {
    const Copies s;
    s.make(
        "mkdir t; cd t; for n in 'a b' '(' '$HOME' $'new\\nline' -dash co:lon , $'\\xc3\\xbc' "
        "$'\\xff\\xfe' \"'\" '\"' ; do echo \"$n\" > ./\"$n\"; done");
    check_ok(s.cp({"t", "s:"}));
    check_ok(s.cp({"s:t", "back"}));
    check_ok(s.out("diff -r t back && test $(ls -1 -b back | wc -l) = 11"));
    for (const std::string name : {"a b", "(", "$HOME", "new\nline", "co:lon", ",", "\xff\xfe"}) {
      CAPTURE(name);
      check_ok(s.cp({"./t/" + name, "s:/work/one " + name}));
      check_ok(s.cp({"s:one " + name, "./two " + name}));
      Spec same = s.spec({});
      same.argv = {"/usr/bin/cmp", "./t/" + name, "./two " + name};
      check_ok(run(same));
    }
    check_ok(s.cp({"./t/-dash", "s:"}));
  }

  TEST_CASE("cp: a sparse file of 100 GB costs nothing, either way") {
    const Copies s;
    s.make("truncate -s 100G big && printf x | dd of=big bs=1 seek=77G conv=notrunc status=none");
    check_ok(s.cp({"big", "s:"}));
    check_ok(s.in("test $(stat -c %s big) = 107374182400 && test $(stat -c %b big) -lt 1000"));
    check_ok(s.cp({"s:big", "back"}));
    check_ok(
        s.out("test $(stat -c %s back) = 107374182400 && test $(stat -c %b back) -lt 1000 && "
              "test $(dd if=back bs=1 skip=77G count=1 status=none) = x"));
  }

  TEST_CASE("cp: what is lost or left out is listed, once a kind, and the exit status tells") {
    const Copies s;
    check_ok(
        s.in("mkdir t; mkfifo t/p1 t/p2; echo x > t/f; chmod 0 t/f; python3 -c 'import socket; "
             "socket.socket(socket.AF_UNIX).bind(\"t/sock\")' 2>/dev/null || true"));
    const Outcome o = s.cp({"s:t", "back"});
    INFO(o.show());
    CHECK(o.code == 1);
    CHECK(contains(o.err, "FIFO, socket or device: "));
    CHECK(contains(o.err, "t/p1"));
    CHECK(contains(o.err, "t/p2"));
    CHECK(lines_of(o.err).size() == 1);
    check_ok(s.out("test $(stat -c %a back/f) = 0 && test ! -e back/p1"));
    const Outcome json = s.cp({"--json", "s:t/.", "back2"});
    CHECK(json.code == 1);
    CHECK(field(json.out, "/notes/0/kind") == "special_file");
  }

  TEST_CASE("cp: user attributes are kept; those of overlays never cross") {
    const Copies s;
    s.make("mkdir t && echo x > t/f");
    const std::string file = s.dir().at("t/f");
    const std::string dir = s.dir().at("t");
    if (::setxattr(file.c_str(), "user.note", "abc", 3, 0) != 0) {
      MESSAGE("SKIP: this file system has no user attributes");
      return;
    }
    REQUIRE(::setxattr(dir.c_str(), "user.overlay.opaque", "y", 1, 0) == 0);
    check_ok(s.cp({"t", "s:"}));
    check_ok(s.cp({"s:t", "back"}));
    char value[8] = {};
    CHECK(::getxattr(s.dir().at("back/f").c_str(), "user.note", value, sizeof value) == 3);
    CHECK(::getxattr(s.dir().at("back").c_str(), "user.overlay.opaque", value, 8) < 0);
  }

  TEST_CASE("cp: a paused session is copied to and from, and stays paused") {
    const Copies s;
    s.make("echo x > f");
    check_ok(s.sbx({"session", "pause", "s"}));
    check_ok(s.cp({"f", "s:"}));
    check_ok(s.cp({"--no-start", "s:f", "back"}));
    check_ok(s.out("cmp f back"));
    CHECK(field(s.sbx({"session", "show", "s", "--json"}).out, "/state") == "paused");
  }

  TEST_CASE("cp: a stopped session is started, or refused with --no-start") {
    const Copies s;
    s.make("echo x > f");
    check_ok(s.sbx({"session", "stop", "s"}));
    const Outcome refused = s.cp({"--no-start", "f", "s:"});
    CHECK(refused.code == 125);
    CHECK(contains(refused.err, "stopped"));
    check_ok(s.cp({"f", "s:"}));
    check_ok(s.in("test -e f"));
  }

  TEST_CASE("cp: from session to session, and as tar streams") {
    const Copies s;
    check_ok(s.sbx({"session", "start", "s2", "-p", "bash"}));
    check_ok(s.in("mkdir t; echo x > t/a; ln t/a t/b"));
    check_ok(s.cp({"s:t", "s2:u"}));
    check_ok(s.cp({"s2:u", "u"}));
    check_ok(s.out("test u/a -ef u/b"));
    check_ok(s.out("tar c u > u.tar && mkdir x"));
    Spec in = s.spec({"session", "cp", "-", "s:/tmp"});
    in.input = s.out("cat u.tar").out;
    check_ok(run(in));
    check_ok(s.in("test /tmp/u/a -ef /tmp/u/b"));
    Spec out = s.spec({"session", "cp", "s:/tmp/u", "-"});
    const Outcome stream = run(out);
    check_ok(stream);
    Spec tar = s.spec({});
    tar.argv = {"tar", "x", "-C", s.dir().at("x")};
    tar.input = stream.out;
    check_ok(run(tar));
    check_ok(s.out("test x/u/a -ef x/u/b"));
    in.input = "no tar at all" + std::string(1000, 'x');
    CHECK(run(in).code == 125);
  }

  TEST_CASE("cp: a directory swapped for a link to / all the time leads nowhere outside") {
    const Copies s;
    s.make("mkdir -p src/d out; echo in > src/d/passwd");
    const Outcome started = s.sbx({"session",
                                   "exec",
                                   "s",
                                   "-d",
                                   "--",
                                   "python3",
                                   "-c",
                                   "import os, ctypes\n"
                                   "os.makedirs('/work/t/d'); os.symlink('/etc', '/work/t/l')\n"
                                   "open('/work/t/d/passwd', 'w').write('inside')\n"
                                   "r = ctypes.CDLL(None).renameat2\n"
                                   "open('/work/ready', 'w')\n"
                                   "while True: r(-100, b'/work/t/d', -100, b'/work/t/l', 2)\n"});
    if (s.in("command -v python3").code != 0) {
      MESSAGE("SKIP: needs python inside");
      return;
    }
    check_ok(started);
    check_ok(s.in("until [ -e /work/ready ]; do sleep 0.05; done"));
    const std::string host = described(s.out("cat /etc/passwd"));
    // In: what is below the named t lands in t/d or is refused, never in the sandbox's own /etc.
    const std::string etc = s.in("md5sum /etc/passwd").out;
    for (int i = 0; i < 60; ++i) {
      const Outcome in = s.cp({"src/d", "s:t"});
      CHECK((in.code == 0 || in.code == 125));
      const Outcome out = s.cp({"s:t", "out"});
      INFO(out.show());
      CHECK((out.code == 0 || out.code == 1));
      for (const std::string name : {"out/t/d", "out/t/l"}) {
        const Outcome kind =
            s.out("test -L " + name + " || ! cmp -s " + name + "/passwd /etc/passwd");
        CHECK(kind.code == 0);
      }
      REQUIRE(s.out("rm -rf out/t").code == 0);
    }
    CHECK(s.in("md5sum /etc/passwd").out == etc);
    CHECK(described(s.out("cat /etc/passwd")) == host);
  }

  TEST_CASE("cp: links at the destination are not written through") {
    const Copies s;
    s.make("echo new > f; echo old > secret; mkdir d; ln -s ../secret d/f; mkdir t; echo x > t/x");
    check_ok(s.cp({"f", "s:"}));
    check_ok(s.cp({"s:f", "d"}));
    check_ok(s.out("test $(cat secret) = old && test ! -L d/f"));
    s.make("mkdir e outside; ln -s ../outside e/t");
    check_ok(s.cp({"t", "s:"}));
    CHECK(s.cp({"s:t", "e"}).code == 125);
    check_ok(s.out("test -z \"$(ls -A outside)\""));
  }

  TEST_CASE("cp: an interrupted copy leaves no half file, goes on with --resume, wedges nothing") {
    const Copies s;
    s.make("head -c 200000000 /dev/urandom > big");
    for (const bool is_in : {true, false}) {
      CAPTURE(is_in);
      if (!is_in) check_ok(s.cp({"big", "s:src"}));
      const std::string from = is_in ? "big" : "s:src";
      const std::string to = is_in ? "s:dst" : "dst";
      // Stopped in the middle: a part of the file is seen, then the signal.
      const std::string part = is_in ? "/work/.sbx-part-*" : ".sbx-part-*";
      Child copying(s.spec({"session", "cp", "--resume", from, to}));
      for (int i = 0; i < 400 && copying.running(); ++i) {
        const std::string look = "test -n \"$(find " + part + " -size +2M 2>/dev/null)\"";
        if ((is_in ? s.in(look) : s.out(look)).code == 0) break;
      }
      copying.kill(SIGINT);
      const Outcome ended = copying.wait();
      INFO(ended.show());
      if (ended.code == 0) {
        MESSAGE("SKIP: the copy was done before it could be interrupted");
        continue;
      }
      CHECK(ended.code == 130);
      CHECK((is_in ? s.in("test -e dst") : s.out("test -e dst")).code == 1);
      const Outcome again = s.cp({"--resume", "--json", from, to});
      check_ok(again);
      CHECK(std::stoull(field(again.out, "/bytes")) < 200000000);
      if (is_in) check_ok(s.cp({"s:dst", "back"}));
      check_ok(s.out(is_in ? "cmp big back" : "cmp big dst"));
      check_ok(is_in ? s.in("test -z \"$(ls -d .sbx-part-* 2>/dev/null)\"")
                     : s.out("test -z \"$(ls -d .sbx-part-* 2>/dev/null)\""));
      const Outcome same = s.cp({"--resume", "--json", from, to});
      CHECK(field(same.out, "/skipped") == "1");
    }
    check_ok(s.in("true"));
  }

  TEST_CASE("cp: words that do not fit are told with the fix") {
    const Copies s;
    Outcome o = s.cp({"a", "b"});
    CHECK(o.code == 2);
    CHECK(contains(o.err, "NAME:PATH"));
    o = s.cp({"none:x", "."});
    CHECK(o.code == 2);
    o = s.cp({"s:nothing", "."});
    CHECK(o.code == 2);
    CHECK(contains(o.err, "nothing: No such file"));
    o = s.cp({"--resume", "s:x", "-"});
    CHECK(o.code == 2);
    s.make("echo x > f");
    CHECK(s.cp({"f", "s:missing/"}).code == 2);
    CHECK(s.cp({"f", "s:/usr/bin"}).code == 125);
    check_ok(s.in("test -z \"$(ls -A)\""));
  }
}

}  // namespace sbx::test
