// escape_test: what a hostile program tries from inside: none of it reaches the host.
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

/// Python that prints "name: word" for each call.
Outcome calls(const std::string& lines) {
  return python(std::string(kPythonSyscalls) + lines);
}

/// The word that calls() printed for a name.
std::string said(const Outcome& o, const std::string& name) {
  for (const auto& line : lines_of(o.out)) {
    if (line.rfind(name + ": ", 0) == 0) {
      return line.substr(name.size() + 2);
    }
  }
  return "nothing";
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("escape: no privilege of any kind is held or can be gained") {
    const Outcome o =
        bash("grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status");
    INFO(o.show());
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
      CHECK(contains(o.out, std::string(set) + ":\t0000000000000000"));
    }
    CHECK(contains(o.out, "NoNewPrivs:\t1"));
    CHECK(contains(o.out, "Seccomp:\t2"));
  }

  TEST_CASE("escape: ids are the job's own, no group of the host is kept, setuid fails") {
    const Outcome o = calls(
        "print('ids:', os.getuid(), os.getgid(), os.getgroups())\n"
        "for f, n in ((os.setuid, 'setuid'), (os.setgid, 'setgid')):\n"
        "    try: f(0); print(n + ': ok')\n"
        "    except OSError as e: print(n + ': ' + errno.errorcode[e.errno])\n"
        "try: os.setgroups([0]); print('setgroups: ok')\n"
        "except OSError as e: print('setgroups: ' + errno.errorcode[e.errno])\n");
    INFO(o.show());
    CHECK(said(o, "ids").rfind("1000 1000", 0) == 0);
    CHECK(said(o, "setuid") != "ok");
    CHECK(said(o, "setgid") != "ok");
    CHECK(said(o, "setgroups") != "ok");
  }

  TEST_CASE("escape: a set-user-id program gains nothing") {
    const Outcome o = bash(
        "for f in /usr/bin/passwd /bin/su /usr/bin/mount /usr/bin/newuidmap; do "
        "[ -e $f ] && stat -c '%n %A' $f; done; findmnt -no OPTIONS /usr || true; "
        "mount -t tmpfs x /mnt; su -c id </dev/null");
    INFO(o.show());
    CHECK(o.code != 0);
    CHECK(!contains(o.out, "uid=0"));
  }

  TEST_CASE("escape: mounts, namespaces and roots cannot be made") {
    const Outcome o = calls(
        "print('mount:', syscall(165, b'none', b'/tmp', b'tmpfs', 0, None))\n"
        "print('umount:', syscall(166, b'/proc', 2))\n"
        "print('pivot_root:', syscall(155, b'/', b'/'))\n"
        "print('chroot:', syscall(161, b'/tmp'))\n"
        "print('unshare_user:', syscall(272, 0x10000000))\n"
        "print('unshare_mnt:', syscall(272, 0x20000))\n"
        "print('unshare_net:', syscall(272, 0x40000000))\n"
        "print('clone_user:', syscall(56, 0x10000000 | 17, 0, 0, 0, 0))\n"
        "print('open_tree:', syscall(428, -100, b'/', 1))\n"
        "print('fsopen:', syscall(430, b'tmpfs', 0))\n"
        "print('move_mount:', syscall(429, -100, b'/', -100, b'/tmp', 0))\n"
        "print('mount_setattr:', syscall(442, -100, b'/', 0, None, 0))\n"
        "fd = os.open('/proc/self/ns/mnt', os.O_RDONLY) if os.path.exists('/proc/self/ns/mnt') "
        "else -1\n"
        "print('setns:', syscall(308, fd, 0))\n"
        "a = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)\n"
        "pid = libc.syscall(ctypes.c_long(435), a, ctypes.c_long(88))\n"
        "if pid == 0: os._exit(0)\n"
        "print('clone3_user:', 'ok' if pid > 0 else 'refused')\n");
    INFO(o.show());
    for (const char* call : {"mount",
                             "umount",
                             "pivot_root",
                             "chroot",
                             "unshare_user",
                             "unshare_mnt",
                             "unshare_net",
                             "clone_user",
                             "open_tree",
                             "fsopen",
                             "move_mount",
                             "mount_setattr",
                             "setns",
                             "clone3_user"}) {
      INFO(call);
      CHECK(said(o, call) != "ok");
      CHECK(said(o, call) != "nothing");
    }
  }

  TEST_CASE("escape: the kernel's dangerous calls are closed") {
    const Outcome o = calls(
        "b = ctypes.create_string_buffer(256)\n"
        "iov = (ctypes.c_uint64 * 2)(ctypes.addressof(b), 8)\n"
        "for name, nr, args in (\n"
        "    ('bpf', 321, (0, b, 72)), ('perf_event_open', 298, (b, 0, -1, -1, 0)),\n"
        "    ('keyctl', 250, (0, -3, 1)), ('add_key', 248, (b'user', b'x', b'y', 1, -3)),\n"
        "    ('request_key', 249, (b'user', b'x', None, -3)), ('userfaultfd', 323, (1,)),\n"
        "    ('io_uring_setup', 425, (4, b)), ('kexec_load', 246, (0, 0, None, 0)),\n"
        "    ('init_module', 175, (b, 0, b'')), ('finit_module', 313, (0, b'', 0)),\n"
        "    ('delete_module', 176, (b'x', 0)), ('reboot', 169, (0xfee1dead, 672274793, 0, "
        "None)),\n"
        "    ('swapon', 167, (b'/x', 0)), ('acct', 163, (None,)), ('settimeofday', 164, (b, "
        "None)),\n"
        "    ('sethostname', 170, (b'x', 1)), ('syslog', 103, (3, b, 100)),\n"
        "    ('quotactl', 179, (0, b'/', 0, None)), ('open_by_handle_at', 304, (3, b, 0)),\n"
        "    ('iopl', 172, (3,)), ('ioperm', 173, (0, 1, 1)), ('mknod_dev', 133, (b'/tmp/m', "
        "0o20666, 257)),\n"
        "    ('clock_settime', 227, (0, b)), ('process_vm_writev1', 311, (1, iov, 1, iov, 1, "
        "0))):\n"
        "    print(name + ':', syscall(nr, *args))\n");
    INFO(o.show());
    int seen = 0;
    for (const auto& line : lines_of(o.out)) {
      INFO(line);
      CHECK(!contains(line, ": ok"));
      ++seen;
    }
    CHECK(seen == 24);
  }

  TEST_CASE("escape: unknown system calls are answered with ENOSYS, and no one ends the program") {
    const Outcome o = calls(
        "bad = [nr for nr in list(range(470, 512)) + list(range(600, 700)) if syscall(nr) != "
        "'ENOSYS']\n"
        "print('bad:', bad)\nprint('io_uring:', syscall(425, 1, None))\n"
        "print('x32:', syscall(0x40000000 + 39))\n");
    INFO(o.show());
    CHECK(said(o, "bad") == "[]");
    CHECK(said(o, "io_uring") == "ENOSYS");
    CHECK(said(o, "x32") != "ok");
  }

  TEST_CASE("escape: the first process and its files are closed to the job") {
    const Outcome o = bash(
        "for f in mem environ maps root/etc exe cwd fd ns/mnt auxv stack syscall; do "
        "  if [ -d /proc/1/$f ]; then ls /proc/1/$f; else head -c 1 /proc/1/$f | wc -c; fi; "
        "done 2>/dev/null | grep -v '^0$'; "
        "readlink /proc/1/exe /proc/1/root /proc/1/cwd; ls /proc/1/fd; exit 0");
    INFO(o.show());
    CHECK(trimmed(o.out) == "");
  }

  TEST_CASE("escape: the first process cannot be traced or written") {
    const Outcome o = calls(
        "print('attach:', syscall(101, 16, 1, None, None))\n"
        "print('seize:', syscall(101, 0x4206, 1, None, None))\n"
        "b = ctypes.create_string_buffer(64)\n"
        "iov = (ctypes.c_uint64 * 2)(ctypes.addressof(b), 8)\n"
        "print('readv:', syscall(310, 1, iov, 1, iov, 1, 0))\n"
        "print('pidfd_getfd:', syscall(438, syscall(434, 1, 0) and 3, 0, 0))\n"
        "print('prlimit:', syscall(302, 1, 7, (ctypes.c_uint64 * 2)(1, 1), None))\n");
    INFO(o.show());
    for (const char* call : {"attach", "seize", "readv", "pidfd_getfd", "prlimit"}) {
      INFO(call);
      CHECK(said(o, call) != "ok");
      CHECK(said(o, call) != "nothing");
    }
  }

  TEST_CASE(
      "escape: the system's directories cannot be written, nothing is made on the host tree") {
    const Outcome o = bash(
        "for d in / /usr /usr/bin /etc /lib /bin /sbin /proc /sys /dev /var /run /home /root /opt "
        "/mnt; do "
        "  [ -d $d ] || continue; if (: > $d/canary) 2>/dev/null; then echo $d; fi; done; "
        "for f in /etc/passwd /etc/hosts /usr/bin/env /etc/ld.so.cache; do "
        "  if (: >> $f) 2>/dev/null; then echo $f; fi; done; exit 0");
    INFO(o.show());
    for (const auto& line : lines_of(o.out)) {
      INFO(line);
      CHECK((line == "/home" || line == "/var" || line == "/run" || line == "/mnt" || line == "/"));
    }
    CHECK(!contains(o.out, "/etc"));
    CHECK(!contains(o.out, "/usr"));
    CHECK(!exists("/canary"));
    CHECK(!exists("/home/canary"));
    CHECK(!exists("/var/canary"));
    CHECK(!exists("/run/canary"));
  }

  TEST_CASE("escape: private parts of the host are not there") {
    SKIP_UNLESS("root");
    const WorkDir dir;
    const std::string unlisted = "/etc/sbx-test-unlisted-" + subject().name;
    run({.argv = {"/bin/sh",
                  "-c",
                  "umask 022; mkdir -p $0; echo canary > $0/file; chmod 644 $0/file",
                  unlisted}});
    const Outcome o = bash(
        "ls -a /root /home /var /run /mnt /media /srv /boot 2>/dev/null; cat "
        "/etc/sbx-test-unlisted*/file "
        "/etc/shadow /etc/sudoers /etc/machine-id /etc/ssh/* /etc/netrc 2>/dev/null; ls "
        "/etc/apt/auth* "
        "/etc/sbx-test-unlisted* " +
        dir.path() + " /tmp 2>/dev/null; cat " + dir.path() +
        "/* 2>/dev/null; "
        "exit 0");
    run({.argv = {"/bin/rm", "-rf", unlisted}});
    INFO(o.show());
    CHECK(!contains(o.out, "canary"));
    CHECK(!contains(o.out, "root:"));
    CHECK(!contains(o.out, test_user().name));
    CHECK(!contains(o.out, ".bashrc"));
  }

  TEST_CASE("escape: what programs need of /etc is there") {
    const Outcome o = bash(
        "cat /etc/passwd; ls /etc/ssl/certs | head -n 1; readlink -f /etc/alternatives/awk; "
        "ls /etc/ld.so.cache; awk 'BEGIN { print \"awk\" }'; date +%Z");
    INFO(o.show());
    CHECK(contains(o.out, "sbx:"));
    CHECK(contains(o.out, "/etc/ld.so.cache"));
    CHECK(contains(o.out, "awk\n"));
  }

  TEST_CASE("escape: kernel memory, keys and switches are masked") {
    const Outcome o = bash(
        "for f in /proc/kcore /proc/kmem /proc/keys /proc/key-users /proc/kallsyms "
        "/proc/sysrq-trigger "
        "/proc/timer_list /proc/sched_debug /proc/latency_stats /proc/kmsg /proc/acpi/x "

        "/sys/kernel/debug/x /sys/firmware/x /dev/mem /dev/kmsg /dev/port /dev/sda /dev/vda; do "
        "  n=$(head -c 64 $f 2>/dev/null | wc -c); [ \"$n\" = 0 ] || echo \"read $f\"; "
        "  if [ ! -c $f ] && echo b > $f; then echo \"wrote $f\"; fi; "
        "done 2>/dev/null; "
        "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/vm/drop_caches "
        "/proc/sys/kernel/modprobe /proc/sys/fs/binfmt_misc/register /proc/self/oom_score_adj_x "
        "/sys/kernel/uevent_helper /proc/irq/0/smp_affinity /sys/power/state; do "
        "  if echo x > $f; then echo \"wrote $f\"; fi; done 2>/dev/null; exit 0");
    INFO(o.show());
    CHECK(trimmed(o.out) == "");
  }

  TEST_CASE("escape: only the needed devices exist") {
    const Outcome o = bash(
        "cd /dev; for f in * */*; do if [ -b $f ] || [ -c $f ]; then echo ./$f; fi; done; echo ok "
        "> /dev/null; "
        "head -c 3 /dev/urandom | wc -c; head -c 3 /dev/zero | wc -c; ls -l /dev/fd/ >/dev/null "
        "&& echo fds");
    INFO(o.show());
    for (const char* bad :
         {"kmsg", "mem", "kvm", "fuse", "vda", "sda", "loop", "tun", "vsock", "port"}) {
      CHECK(!contains(o.out, std::string("./") + bad));
    }
    CHECK(contains(o.out, "./null"));
    CHECK(contains(o.out, "./urandom"));
    CHECK(contains(o.out, "fds"));
  }

  TEST_CASE("escape: no descriptor of ours but the three is open inside") {
    const WorkDir dir;
    Spec spec =
        sbx_spec(bash_args("ls /proc/self/fd | tr '\\n' ' '; for n in $(seq 3 20); do "
                           "[ -e /proc/self/fd/$n/etc ] && echo leak$n; done; exit 0"));
    std::vector<int> held;
    for (int i = 0; i < 18; ++i) {
      held.push_back(::open("/", O_RDONLY | O_DIRECTORY));
    }
    spec.keep = held;
    const Outcome o = run(spec);
    for (const int fd : held) {
      ::close(fd);
    }
    INFO(o.show());
    CHECK((o.out == "0 1 2 3 " || o.out == "0 1 2 "));  // 3 is ls's own directory
  }

  TEST_CASE("escape: a work directory through a descriptor is refused or is inside") {
    for (int n = 3; n < 13; ++n) {
      Spec spec = sbx_spec(bash_args("pwd -P; ls -a .. | tr '\\n' ' '; cat etc/shadow",
                                     {"-w", "/proc/self/fd/" + std::to_string(n)}));
      std::vector<int> held;
      for (int i = 0; i < 12; ++i) {
        held.push_back(::open("/", O_RDONLY | O_DIRECTORY));
      }
      spec.keep = held;
      const Outcome o = run(spec);
      for (const int fd : held) {
        ::close(fd);
      }
      INFO(o.show());
      CHECK(o.code != 0);
      CHECK((o.code == 2 || o.code == 125));
      CHECK(!contains(o.out, "root:"));
    }
  }

  TEST_CASE("escape: the current directory is inside, also through its parents") {
    const Outcome o = bash(
        "pwd -P; cd /work/../../../../../..; pwd -P; ls -d /proc/self/cwd/work "
        "/../../work; stat -Lc %i / /proc/self/root");
    INFO(o.show());
    const auto lines = lines_of(o.out);
    REQUIRE(lines.size() == 6);
    CHECK(lines[0] == "/work");
    CHECK(lines[1] == "/");
    CHECK(lines[4] == lines[5]);
  }

  TEST_CASE("escape: there is no network, and no name of the host") {
    const Outcome o = python(
        "import socket, os\n"
        "print(sorted(n for _, n in socket.if_nameindex()))\n"
        "for family, where in ((socket.AF_INET, ('127.0.0.1', 22)), (socket.AF_INET, ('10.0.0.1', "
        "53)),\n"
        "                      (socket.AF_INET6, ('::1', 22))):\n"
        "    s = socket.socket(family); s.settimeout(2)\n"
        "    try: s.connect(where); print('connected')\n"
        "    except OSError as e: print('refused')\n"
        "print(os.uname().nodename)");
    INFO(o.show());
    CHECK(!contains(o.out, "connected"));
    CHECK(!contains(o.out, "eth"));
    CHECK(contains(o.out, "sbx\n"));
  }

  TEST_CASE("escape: abstract and file sockets of the host cannot be reached") {
    const WorkDir dir;
    Child server({.argv = {"/usr/bin/python3",
                           "-c",
                           "import socket, time, sys\ns = socket.socket(socket.AF_UNIX)\n"
                           "s.bind('\\0sbx-test-abstract' + sys.argv[2]); s.listen()\n"
                           "t = socket.socket(socket.AF_UNIX); t.bind(sys.argv[1]); t.listen()\n"
                           "print('ready', flush=True); time.sleep(60)",
                           dir.at("socket"),
                           subject().name}});
    REQUIRE(server.wait_for_text("ready", 20));
    const Outcome o = python("import socket, sys\nfor name in ('\\0sbx-test-abstract" +
                             subject().name + "', '" + dir.at("socket") +
                             "'):\n"
                             "    s = socket.socket(socket.AF_UNIX)\n"
                             "    try: s.connect(name); print('connected')\n"
                             "    except OSError: print('refused')");
    INFO(o.show());
    CHECK(o.out == "refused\nrefused\n");
  }

  TEST_CASE("escape: System V and POSIX objects of the host are not seen") {
    SKIP_UNLESS("root");
    const std::string made = trimmed(run({.argv = {"/usr/bin/ipcmk", "-M", "4096"}}).out);
    const std::string name = "/dev/shm/sbx-test-" + subject().name;
    run({.argv = {"/bin/sh", "-c", "echo canary > $0; chmod 666 $0", name}});
    const Outcome o = bash("ipcs -m | grep -c 0x || true; ls /dev/shm");
    run({.argv = {"/usr/bin/ipcrm", "-m", made.substr(made.rfind(' ') + 1)}});
    ::unlink(name.c_str());
    INFO(o.show());
    CHECK(o.out == "0\n");
  }

  TEST_CASE("escape: capabilities that open the host are refused by name") {
    for (const char* cap : {"SYS_ADMIN",
                            "CAP_SYS_PTRACE",
                            "SYS_MODULE",
                            "NET_ADMIN",
                            "SYS_RAWIO",
                            "sys_boot",
                            "MAC_ADMIN",
                            "BPF",
                            "NONSENSE"}) {
      const Outcome o = bash("true", {"--set", std::string("capabilities=[") + cap + "]"});
      INFO(cap);
      INFO(o.show());
      CHECK(o.code == 2);
    }
  }

  TEST_CASE("escape: nesting allows user namespaces, and only then") {
    SKIP_UNLESS("userns");
    const Outcome o = command({"unshare", "-Ur", "true"});
    INFO(o.show());
    CHECK(o.code != 0);
    const Outcome nested =
        command({"unshare", "-Urm", "sh", "-c", "mount -t tmpfs x /tmp && echo nested"},
                {"--set", "nesting=true"});
    INFO(nested.show());
    CHECK(nested.out == "nested\n");
  }

  TEST_CASE("escape: a link in /work that points out is no way out for artifacts or mounts") {
    const WorkDir dir;
    const WorkDir secret;
    secret.write("secret", "canary\n", 0600);
    const Outcome o = bash("ln -s " + secret.at("secret") +
                               " l; ln -s /etc/shadow s; ln -s / r; "
                               "ln -s ../../../../etc/passwd rel; mkfifo p; echo x > real",
                           {"-o", dir.at("out")});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(slurp(dir.at("out/real")) == "x\n");
    CHECK(!contains(slurp(dir.at("out/l")), "canary"));
    for (const char* name : {"out/l", "out/s", "out/r", "out/rel", "out/p"}) {
      CHECK(!exists(dir.at(name)));
    }
    CHECK(contains(slurp(dir.at("out/manifest.json")), "\"l\""));
  }
}

}  // namespace sbx::test
