// binary_test: the job can neither open nor run nor alter the host's sbx file, whoever owns it.
#include <sys/stat.h>

#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

/// What identifies the file's state: content and the times that a write would change.
std::string state_of(const std::string& path) {
  return run({.argv =
                  {"/bin/sh", "-c", "sha256sum \"$0\"; stat -c '%i %s %a %u %Y %Z' \"$0\"", path}})
      .out;
}

struct Attack {
  const char* name;
  Args args;  // after `sbx`
};

/// Every way to reach the binary through what is executed; ran with both owners.
std::vector<Attack> attacks() {
  const std::string pry =
      "import os, glob\n"
      "for path in ['/proc/self/exe', '/proc/1/exe'] + glob.glob('/proc/[0-9]*/exe'):\n"
      "    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND):\n"
      "        try:\n"
      "            fd = os.open(path, flags)\n"
      "            head = os.pread(fd, 1 << 20, 0) if flags == os.O_RDONLY else b'w'\n"
      "            where = os.readlink(path) if path != '/proc/1/exe' else '?'\n"
      "            if 'sbx' in where or flags != os.O_RDONLY or path == '/proc/1/exe':\n"
      "                print('OPENED', path, flags, where)\n"
      "        except OSError: pass\n"
      "for path in glob.glob('/proc/[0-9]*/exe'):\n"
      "    try:\n"
      "        if b'sbx' in os.readlink(path).encode(): print('SEEN', path, os.readlink(path))\n"
      "    except OSError: pass\n"
      "print('done')\n";
  return {
      {"argv[0] is /proc/self/exe", {"run", "-p", "bash", "--", "/proc/self/exe", "version"}},
      {"argv[0] is /proc/1/exe", {"run", "-p", "bash", "--", "/proc/1/exe", "version"}},
      {"argv[0] through the thread",
       {"run", "-p", "bash", "--", "/proc/thread-self/exe", "version"}},
      {"a script whose first line is it",
       {"run",
        "-p",
        "bash",
        "-c",
        "printf '#!/proc/self/exe\\n' > x; chmod +x x; exec ./x version"}},
      {"a script as the program itself",
       {"run", "-i", "@script@", "-p", "bash", "--", "/work/script", "x"}},
      {"a link to it",
       {"run", "-i", "@link@", "-p", "bash", "-c", "ln -s /proc/self/exe l; exec ./l version"}},
      {"prying through /proc", {"run", "-p", "python", "-c", pry}},
  };
}

void attack_all(const std::string& binary) {
  const WorkDir dir;
  const std::string script = dir.write("script", "#!/proc/self/exe\n", 0755);
  const std::string link = dir.write("link", "");
  const std::string before = state_of(binary);
  for (Attack attack : attacks()) {
    for (auto& arg : attack.args) {
      arg = arg == "@script@" ? script : arg == "@link@" ? link : arg;
    }
    Spec spec = sbx_spec(attack.args);
    spec.argv[0] = binary;
    const Outcome o = run(spec);
    INFO(attack.name);
    INFO(o.show());
    CHECK(!o.timed_out);
    CHECK(!contains(o.out, "sbx 0."));  // our own version text: it ran
    CHECK(!contains(o.out, "OPENED"));
    CHECK(!contains(o.out, "SEEN"));
  }
  CHECK(state_of(binary) == before);
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("binary: a root-owned sbx file is out of the job's reach") {
    attack_all(sbx_path());
  }

  TEST_CASE("binary: an sbx file that the caller may write is out of the job's reach") {
    attack_all(own_sbx_path());
  }

  TEST_CASE("binary: a program named /proc/self/exe by the start of sbx is refused with words") {
    const Outcome o = command({"/proc/self/exe", "version"});
    INFO(o.show());
    CHECK((o.code == 126 || o.code == 127));
    CHECK(contains(o.err, "/proc/self/exe"));
  }

  TEST_CASE("binary: writing to the file while the job runs fails for the job in every way") {
    SKIP_UNLESS("python");
    const std::string before = state_of(own_sbx_path());
    Spec spec = sbx_spec(python_args(
        "import os, time\n"
        "end = time.time() + 1.5\nwon = 0\n"
        "while time.time() < end:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        try: os.execv('/proc/self/exe', ['x', '-c', 'pass'])\n"
        "        except OSError: os._exit(1)\n"
        "    for p in (1, pid, os.getppid()):\n"
        "        try:\n"
        "            fd = os.open('/proc/%d/exe' % p, os.O_WRONLY); won += 1; os.close(fd)\n"
        "        except OSError: pass\n"
        "    os.waitpid(pid, 0)\n"
        "print('won', won)"));
    spec.argv[0] = own_sbx_path();
    const Outcome o = run(spec);
    INFO(o.show());
    CHECK(o.out == "won 0\n");
    CHECK(state_of(own_sbx_path()) == before);
  }
}

}  // namespace sbx::test
