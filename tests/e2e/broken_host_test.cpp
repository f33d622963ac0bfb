// broken_host_test: hosts that are full, restricted or odd: an error with words and a fix, nothing
// half done, and the same command works once the host does.
#include <sys/mount.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// A tmpfs for the subject, on a directory that is removed afterwards.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& options, unsigned long flags = 0) {
    const std::string all = options + ",mode=755,uid=" + std::to_string(subject().uid) +
                            ",gid=" + std::to_string(subject().gid);
    REQUIRE(::mount("tmpfs", dir_.path().c_str(), "tmpfs", flags, all.c_str()) == 0);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() { ::umount2(dir_.path().c_str(), MNT_DETACH); }
  std::string at(const std::string& name) const { return dir_.at(name); }
  const std::string& path() const { return dir_.path(); }
  const WorkDir& dir() const { return dir_; }

 private:
  WorkDir dir_;
};

/// A script run as the subject; $0 is sbx.
Outcome shell(const std::string& script) {
  return run({.argv = {"/bin/bash", "-c", script, sbx_path()}, .cwd = "/tmp", .as = &subject()});
}

/// What remains of a run in the directory above its artifacts.
std::vector<std::string> hidden_in(const std::string& dir) {
  std::vector<std::string> out;
  for (const std::string& name : names_in(dir)) {
    if (name.rfind('.', 0) == 0) out.push_back(name);
  }
  return out;
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("broken host: where mounts are shared, as systemd has them, none of ours gets out") {
    SKIP_UNLESS("userns");
    if (subject().uid != 0) return;
    const WorkDir dir;
    const std::string look = "cut -d' ' -f5 /proc/self/mountinfo";
    const std::string script =
        "cd " + dir.path() + " && mkdir -m 777 m && echo x >in && before=$(" + look +
        ") && { \"$0\" run -p bash -i in -v m:/data:rw -c 'echo ran; sleep 1' & } && sleep 0.6 && "
        "during=$(" +
        look + ") && wait $! && after=$(" + look +
        ") && [ \"$before\" = \"$during\" ] && [ \"$before\" = \"$after\" ] && echo same";
    const Outcome o = run({.argv = {"/usr/bin/unshare",
                                    "-m",
                                    "--propagation",
                                    "shared",
                                    "/bin/bash",
                                    "-c",
                                    script,
                                    sbx_path()},
                           .as = &subject()});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out == "ran\nsame\n");
  }

  TEST_CASE("broken host: without user namespaces nothing runs, and run and doctor say why") {
    SKIP_UNLESS("userns");
    const std::string off =
        "exec unshare -Ur bash -c 'echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"' x ";
    const Outcome o = shell(off + "\"$0\" run -p bash -c 'echo ran'");
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(o.out.empty());
    CHECK(contains(o.err, "make a user namespace: "));
    CHECK(contains(o.err, "sysctl -w user.max_user_namespaces=15000"));
    const Outcome doctor = shell(off + "\"$0\" doctor run user-namespaces kernel");
    INFO(doctor.show());
    CHECK(doctor.code == 1);
    CHECK(contains(doctor.out, "sbx run does not work here: user-namespaces, run\n"));
    CHECK(contains(doctor.out, "sysctl -w user.max_user_namespaces=15000"));
  }

  TEST_CASE("broken host: a full disk under -o is said, leaves nothing, and a retry works") {
    SKIP_UNLESS("root");
    const SmallDisk disk("size=256k");
    for (const char* const out : {"new", "archive.tar"}) {
      CAPTURE(out);
      const Args flags{"-o", disk.at(out)};
      disk.dir().write("filler", std::string(200'000, 'x'));
      const Outcome full = bash("head -c 150000 /dev/urandom > f", flags);
      INFO(full.show());
      CHECK(full.code == 125);
      CHECK(contains(full.err, "No space left on device"));
      CHECK(contains(full.err, "df -i"));
      CHECK_FALSE(exists(disk.at(out)));
      CHECK(hidden_in(disk.path()).empty());
      disk.dir().write("filler", "");
      CHECK(bash("head -c 50000 /dev/urandom > f", flags).code == 0);
      CHECK(exists(disk.at(out)));
    }
  }

  TEST_CASE("broken host: a file system without inodes is said with the way to see it") {
    SKIP_UNLESS("root");
    const SmallDisk disk("size=4m,nr_inodes=12");
    const Outcome o = bash("for i in $(seq 40); do echo x > f$i; done", {"-o", disk.at("out")});
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(contains(o.err, "No space left on device"));
    CHECK(contains(o.err, "df -i the inodes"));
    CHECK_FALSE(exists(disk.at("out")));
    CHECK(hidden_in(disk.path()).empty());
  }

  TEST_CASE("broken host: with the state directory on a full disk runs, gc and doctor work") {
    SKIP_UNLESS("root");
    const SmallDisk disk("size=64k");
    const std::string state = "export SBX_STATE_DIR=" + disk.at("state") + "; ";
    REQUIRE(shell(state + "exec \"$0\" gc").code == 0);
    disk.dir().write("filler", std::string(128'000, 'x'));
    const Outcome ran = shell(state + "exec \"$0\" run -p bash -c 'echo ran'");
    INFO(ran.show());
    CHECK(ran.code == 0);
    CHECK(ran.out == "ran\n");
    const Outcome gc = shell(state + "exec \"$0\" gc");
    INFO(gc.show());
    CHECK(gc.code == 0);
    const Outcome doctor = shell(state + "exec \"$0\" doctor disk");
    INFO(doctor.show());
    CHECK(doctor.code == 0);
    CHECK(contains(doctor.out, "cause: the file system is full"));
  }

  TEST_CASE("broken host: a program on a noexec mount is refused with its path") {
    SKIP_UNLESS("root");
    const SmallDisk disk("size=4m", MS_NOEXEC);
    disk.dir().write("tool", "#!/bin/sh\necho ran\n", 0755);
    const Outcome o = command({"/tmp/m/tool"}, {"-v", disk.path() + ":/tmp/m:ro"});
    INFO(o.show());
    if (contains(o.err, "cannot map owners")) {  // a tmpfs before Linux 6.3
      MESSAGE("SKIP: needs a tmpfs that can map owners");
      return;
    }
    CHECK(o.code == 126);
    CHECK(contains(o.err, "/tmp/m/tool: its file system is mounted noexec"));
  }

  TEST_CASE("broken host: a run that a thread started goes on when the thread ends") {
    SKIP_UNLESS("python");
    const std::string script =
        "import subprocess, sys, threading\n"
        "runs = []\n"
        "def start():\n"
        "    runs.append(subprocess.Popen([sys.argv[1], 'run', '-p', 'bash', '-c',\n"
        "        'sleep 0.5; echo went on'], stdout=subprocess.PIPE, text=True))\n"
        "thread = threading.Thread(target=start)\n"
        "thread.start(); thread.join()\n"
        "out = runs[0].communicate()[0]\n"
        "print(runs[0].returncode, out)\n";
    const Outcome o =
        run({.argv = {"/usr/bin/python3", "-c", script, sbx_path()}, .cwd = "/", .as = &subject()});
    INFO(o.show());
    CHECK(o.out == "0 went on\n\n");
  }

  TEST_CASE("broken host: a job that stopped itself and its children ends when its time is up") {
    const LeakCheck check;
    const Outcome o =
        bash("sleep 99 & kill -STOP $!; kill -STOP $$", {"--timeout", "1s", "--json"});
    INFO(o.show());
    CHECK(o.code == 124);
    CHECK(field(o.out, "/cause") == "timeout");
    CHECK(joined(check.left()) == "");
  }

  TEST_CASE("broken host: output for a stdout that was closed before is an error with words") {
    const Outcome o = shell("exec \"$0\" run -p bash -c 'echo hi; exit 3' >&-");
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(contains(o.err, "sbx: standard output: write: Bad file descriptor"));
    CHECK(shell("exec \"$0\" run -p bash -c 'exit 3' >&-").code == 3);
  }

  TEST_CASE("broken host: a mistyped variable is told, and with -q it is not") {
    const Outcome o = shell("SBX_MEMROY=1G exec \"$0\" run -p bash -c 'echo ran'");
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out == "ran\n");
    CHECK(contains(o.err,
                   "sbx: warning: the variable SBX_MEMROY means nothing to sbx; did you mean "
                   "SBX_MEMORY?\n"));
    const Outcome quiet = shell("SBX_MEMROY=1G exec \"$0\" run -q -p bash -c true");
    CHECK(quiet.err.empty());
  }

  TEST_CASE("broken host: with hardly any descriptors the limit is named") {
    const Outcome o = shell("ulimit -n 10; exec \"$0\" run -p bash -c true");
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(contains(o.err, "Too many open files"));
    CHECK(contains(o.err, "fix: raise the limit on open files: ulimit -n 1024"));
  }
}

}  // namespace sbx::test
