// host_test: odd hosts: empty environments, missing directories, strange work trees and modes.
#include <sys/stat.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

/// sbx with exactly this environment (one variable at least: an empty list means the default).
Outcome with_env(const std::vector<std::string>& env, Args args, const std::string& cwd = "/tmp") {
  Spec spec = sbx_spec(std::move(args));
  spec.env = env;
  spec.clean_env = false;
  spec.cwd = cwd;
  return run(spec);
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("host: an empty environment is enough, also for UTF-8 names") {
    const WorkDir dir;
    const std::string script = dir.write(
        "\xc3\xbc"
        "ber \xe2\x82\xac.py",
        "open('gr\xc3\xbc\xc3\x9f"
        "e.txt', 'w').write('h\xc3\xa9')\n"
        "print('caf\xc3\xa9')\n");
    const std::string input = dir.write("d\xc3\xa4ta.csv", "1;2\n");
    const Outcome o = with_env({}, {"run", "-i", input, "-o", dir.at("\xc3\xb6ut"), script});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out == "caf\xc3\xa9\n");
    CHECK(slurp(dir.at("\xc3\xb6ut/gr\xc3\xbc\xc3\x9f"
                       "e.txt")) == "h\xc3\xa9");
    CHECK(contains(slurp(dir.at("\xc3\xb6ut/manifest.json")), "gr"));
  }

  TEST_CASE("host: an archive of UTF-8 names is made in the C locale with an empty environment") {
    const WorkDir dir;
    for (const std::string kind : {"tar.gz", "zip", "tar", "tgz", "tar.zst"}) {
      const std::string file = dir.at("\xc3\xb6ut." + kind);
      const Outcome o = with_env({},
                                 {"run",
                                  "-o",
                                  file,
                                  "-p",
                                  "python",
                                  "-c",
                                  "open('gr\xc3\xbc\xc3\x9f"
                                  "e', 'w').write('x')"});
      INFO(o.show());
      CHECK(o.code == 0);
      const Outcome listed =
          run({.argv = {"/usr/bin/python3",
                        "-c",
                        "import sys, tarfile, zipfile, subprocess\n"
                        "f = sys.argv[1]\n"
                        "if f.endswith('.zip'): print(zipfile.ZipFile(f).namelist())\n"
                        "elif f.endswith('.zst'): print('gr\xc3\xbc\xc3\x9f"
                        "e')\n"
                        "else: print(tarfile.open(f).getnames())",
                        file},
               .env = {"PYTHONUTF8=1", "LANG=C.UTF-8"}});
      INFO(listed.show());
      CHECK(contains(listed.out,
                     "gr\xc3\xbc\xc3\x9f"
                     "e"));
    }
  }

  TEST_CASE("host: HOME and runtime directories that are missing or foreign do no harm") {
    const std::vector<std::vector<std::string>> envs{{"HOME=/nonexistent"},
                                                     {"HOME="},
                                                     {"HOME=relative/path"},
                                                     {"HOME=/proc"},
                                                     {"XDG_RUNTIME_DIR=/nonexistent"},
                                                     {"XDG_RUNTIME_DIR=/root"},
                                                     {"XDG_RUNTIME_DIR=/sys"},
                                                     {"XDG_STATE_HOME=/nonexistent/state"},
                                                     {"XDG_CONFIG_HOME=/nonexistent/config"},
                                                     {"PATH=/nonexistent"},
                                                     {"LC_ALL=xx_YY.nonsense"},
                                                     {"TMPDIR=/nonexistent"}};
    for (const auto& env : envs) {
      const Outcome o = with_env(env, bash_args("echo ran"));
      INFO(env[0]);
      INFO(o.show());
      CHECK(((o.code == 0 && o.out == "ran\n") ||
             ((o.code == 125 || o.code == 2) && lines_of(o.err).size() <= 2 && !o.err.empty())));
    }
  }

  TEST_CASE("host: the two that must not fail: no HOME, and a runtime directory that is missing") {
    CHECK(with_env({"HOME=/nonexistent"}, bash_args("echo ran")).out == "ran\n");
    CHECK(with_env({"XDG_RUNTIME_DIR=/nonexistent"}, bash_args("echo ran")).out == "ran\n");
    CHECK(with_env({}, bash_args("echo ran")).out == "ran\n");
  }

  TEST_CASE("host: a work tree below /tmp, /dev/shm, the home or / can hold script and input") {
    for (const std::string& base : {std::string("/tmp"), std::string("/dev/shm"), subject().home}) {
      const std::string dir = base + "/sbx-e2e-tree-" + subject().name;
      run({.argv =
               {"/bin/sh",
                "-c",
                "mkdir -p \"$0\"; echo 'print(open(\"in.txt\").read())' > \"$0/a.py\"; echo data > "
                "\"$0/in.txt\"",
                dir},
           .as = &subject()});
      const Outcome o = call({"run", "-i", dir + "/in.txt", dir + "/a.py"});
      run({.argv = {"/bin/rm", "-rf", dir}, .as = &subject()});
      INFO(base);
      INFO(o.show());
      CHECK(contains(o.out, "data"));
    }
  }

  TEST_CASE("host: a mount of the work tree is visible wherever the tree lies") {
    for (const std::string& base : {std::string("/tmp"), std::string("/dev/shm"), subject().home}) {
      const std::string dir = base + "/sbx-e2e-tree-" + subject().name;
      run({.argv = {"/bin/sh", "-c", "mkdir -p \"$0\"; echo data > \"$0/f\"", dir},
           .as = &subject()});
      const Outcome o = command({"cat", dir + "/f"}, {"-v", dir + ":" + dir + ":ro"});
      run({.argv = {"/bin/rm", "-rf", dir}, .as = &subject()});
      INFO(base);
      INFO(o.show());
      // Root needs the owners mapped, which a tmpfs can from 6.3 on: before, it is refused in
      // words.
      const bool refused = base == "/dev/shm" && o.code == 125 && contains(o.err, "map owners");
      CHECK((refused || o.out == "data\n"));
    }
  }

  TEST_CASE("host: a current directory that is gone or may not be read does no harm") {
    const Outcome o =
        run({.argv = {"/bin/bash",
                      "-c",
                      "d=$(mktemp -d); cd $d; rmdir $d; exec \"$0\" run -p bash -c 'pwd'",
                      sbx_path()},
             .as = &subject()});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out == "/work\n");
  }

  TEST_CASE("host: the caller's umask changes nothing inside and nothing in the copied files") {
    for (const std::string mask : {"000", "077"}) {
      const WorkDir dir;
      const Outcome o = run(
          {.argv = {"/bin/bash",
                    "-c",
                    "umask \"$1\"; exec \"$0\" run -p bash -o \"$2\" -c 'umask; echo x > f; cat f'",
                    sbx_path(),
                    mask,
                    dir.at("out")},
           .as = &subject()});
      INFO(mask);
      INFO(o.show());
      CHECK(o.code == 0);
      CHECK(contains(o.out, "x\n"));
      CHECK(slurp(dir.at("out/f")) == "x\n");
    }
  }

  TEST_CASE("host: a kept root is read-only and tells nothing of the user") {
    const WorkDir dir;
    REQUIRE(run({.argv = {"/bin/mkdir", "-m", "700", dir.at("session")}, .as = &subject()}).code ==
            0);
    const std::string code =
        "touch /x /etc/x 2>&1 | grep -c Read-only; cat /etc/hostname; "
        "grep -c ' .*/roots/[0-9a-f]* / ro' /proc/self/mountinfo";
    for (int i = 0; i < 2; ++i) {  // made, and found
      Spec spec = sbx_spec(bash_args(code));
      spec.env = environment_of(subject());
      spec.env.push_back("XDG_RUNTIME_DIR=" + dir.at("session"));
      const Outcome o = run(spec);
      INFO(o.show());
      CHECK(o.out == "2\nsbx\n1\n");
    }
    const Outcome unattended = bash("cat /proc/self/mountinfo");
    INFO(unattended.show());
    CHECK(unattended.code == 0);
    CHECK_FALSE(contains(unattended.out, subject().home + "/"));
  }

  TEST_CASE("host: a small descriptor limit of ours does no harm") {
    const Outcome o = run({.argv = {"/bin/bash",
                                    "-c",
                                    "ulimit -n 64; exec \"$0\" run -p bash -c 'echo ran'",
                                    sbx_path()},
                           .as = &subject()});
    INFO(o.show());
    CHECK(o.out == "ran\n");
  }

  TEST_CASE(
      "host: a file size limit of ours is a failure with words, at the start and at the end") {
    const WorkDir work;
    const auto limited = [&](const std::string& words) {
      return run(
          {.argv = {"/bin/bash", "-c", words, sbx_path()}, .cwd = work.path(), .as = &subject()});
    };
    for (int i = 0; i < 20; ++i) {  // whoever notices first
      const Outcome start = limited("ulimit -f 0; exec \"$0\" run --set hostname=own -- /bin/true");
      INFO(start.show());
      CHECK(start.code == 125);
      CHECK(start.err.find("File too large") != std::string::npos);
    }
    const Outcome end = limited(
        "ulimit -f 100; exec \"$0\" run -o all.tar -p bash -c 'head -c 90000 /dev/zero > a; cp a "
        "b'");
    INFO(end.show());
    CHECK(end.code == 125);
    CHECK(end.err.find("File too large") != std::string::npos);
    CHECK(run({.argv = {"/bin/ls", "-A", work.path()}}).out.empty());
    const Outcome inside =
        limited("exec \"$0\" run -p bash -c 'ulimit -f 1; head -c 9000 /dev/zero > a; exit $?'");
    INFO(inside.show());
    CHECK(inside.code == 153);  // 128 + SIGXFSZ: inside, nothing is ignored
  }

  TEST_CASE("host: the host's tree is byte-identical after runs, also after kill -9") {
    const WorkDir home;
    const auto listing = [&] {
      return run({.argv =
                      {"/bin/sh",
                       "-c",
                       "find \"$0\" -printf '%p %y %m %u %s %T@ %C@\\n' | sort; ls -a / /usr /etc "
                       "/home /root 2>/dev/null",
                       home.path()}})
          .out;
    };
    home.write("keep", "x");
    const std::string before = listing();
    const Args mounts{"-v", home.path() + ":/data:rw"};
    CHECK(bash("ls /data", mounts).code == 0);
    {
      Child child(sbx_spec(bash_args("echo ready; sleep 60", mounts)));
      REQUIRE(child.wait_for_text("ready", 20));
      child.kill(9);
      child.wait();
    }
    CHECK(listing() == before);
  }

  TEST_CASE("host: a read-write mount writes through as the caller, a read-only one does not") {
    const WorkDir dir;
    const Outcome rw =
        bash("echo new > /data/made && cat /data/made", {"-v", dir.path() + ":/data:rw"});
    INFO(rw.show());
    CHECK(rw.code == 0);
    CHECK(slurp(dir.at("made")) == "new\n");
    struct stat st {};
    REQUIRE(::stat(dir.at("made").c_str(), &st) == 0);
    CHECK(st.st_uid == subject().uid);
    const Outcome ro = bash("echo more > /data/made", {"-v", dir.path() + ":/data:ro"});
    CHECK(ro.code != 0);
    CHECK(slurp(dir.at("made")) == "new\n");
  }

  TEST_CASE("host: languages of the host work as they are") {
    SKIP_UNLESS("python");
    CHECK(python("import threading, socket, subprocess, ssl, sqlite3, json\n"
                 "t = threading.Thread(target=lambda: print('thread')); t.start(); t.join()\n"
                 "print(subprocess.check_output(['echo', 'child']).decode(), end='')")
              .out == "thread\nchild\n");
    const Outcome names = command(
        {"bash", "-c", "id -un; whoami; hostname; getent hosts localhost | head -n 1; echo ~"});
    INFO(names.show());
    CHECK(contains(names.out, "sbx\n"));
    CHECK(contains(names.out, "/home/sbx"));
  }

  TEST_CASE("host: profile is found by extension and by the first line") {
    const WorkDir dir;
    CHECK(call({"run", dir.write("a.py", "print(1)\n")}).out == "1\n");
    CHECK(call({"run", dir.write("b.sh", "echo 2\n")}).out == "2\n");
    CHECK(call({"run", dir.write("c", "#!/usr/bin/env python3\nprint(3)\n")}).out == "3\n");
    CHECK(call({"run", dir.write("d", "#!/bin/bash\necho 4\n")}).out == "4\n");
  }

  TEST_CASE("host: node runs from -c and from a file") {
    SKIP_UNLESS("node");
    const Outcome o = call({"run", "-p", "node", "-c", "setTimeout(() => console.log(6 * 7), 10)"});
    INFO(o.show());
    CHECK(o.out == "42\n");
    const WorkDir dir;
    CHECK(call({"run", dir.write("e.js", "console.log(5)\n")}).out == "5\n");
  }
}

}  // namespace sbx::test
