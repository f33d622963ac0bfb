// vm_session_test: sessions in virtual machines: what works as in a jail, files on a disk of their
// own, and what becomes of a machine that stands, hangs or loses its supervisor.
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string>

#include <doctest/doctest.h>

#include "tests/e2e/images.h"
#include "tests/e2e/sbx.h"
#include "tests/e2e/sessions.h"
#include "tests/e2e/vm_state.h"
#include "tests/support/pty.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

struct Machines : Sessions {
  Machines() : Sessions(In{vm_state_dir()}) {}

  void start(const std::string& name, const Args& flags = {}) const {
    Args all{"--isolation", "vm", "--accel", "tcg"};
    all.insert(all.end(), flags.begin(), flags.end());
    Sessions::start(name, all);
  }
  void again(const std::string& name) const {
    const Outcome o = call({"start", name});
    INFO(o.show());
    REQUIRE(o.code == 0);
  }
  std::string out(const std::string& name, std::string_view code, const Args& flags = {}) const {
    const Outcome o = exec(name, code, flags);
    INFO(o.show());
    CHECK(o.code == 0);
    return trimmed(o.out);
  }
  void stop(const std::string& name) const {
    const Outcome o = call({"stop", name});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(state(name) == "stopped");
  }
  std::string file(const std::string& name, const std::string& which) const {
    return state_dir() + "/sessions/" + name + "/" + which;
  }
};

/// QEMU, a child of PID 1 of its jail; 0 when there is none.
pid_t machine_of(pid_t init) {
  const Outcome o = run({.argv = {"/usr/bin/pgrep", "-P", std::to_string(init)}});
  return std::atoi(o.out.c_str());
}

bool is_gone(pid_t pid) {
  return !exists("/proc/" + std::to_string(pid)) ||
         contains(slurp("/proc/" + std::to_string(pid) + "/status"), "State:\tZ");
}

}  // namespace

TEST_SUITE("vm") {
  TEST_CASE("vm session: programs run as in a jail, and are seen and ended from outside") {
    SKIP_UNLESS("vm");
    const Machines vm;
    vm.start("s", {"--label", "team=a"});
    CHECK(vm.show("s", "/isolation") == "vm");
    CHECK(vm.show("s", "/isolation_reason") == "asked for, with software emulation");
    CHECK(vm.show("s", "/labels/team") == "a");
    CHECK(contains(vm.out("s", "uname -r"), "6.1"));
    CHECK(vm.exec("s", "echo err >&2; exit 3").code == 3);
    CHECK(vm.exec("s", "kill -9 $$").code == 137);
    CHECK(vm.exec("s", "sleep 1000", {"--timeout", "1s"}).code == 124);
    CHECK(vm.out("s", "id -u", {"-u", "root"}) == "0");
    CHECK(vm.call({"exec", "s", "--", "nothing-of-that-name"}).code == 127);
    Spec fed = vm.spec(Sessions::exec_args("s", "cat; echo end", {"-i"}));
    fed.input = "one\ntwo\n";
    CHECK(run(fed).out == "one\ntwo\nend\n");
    const Outcome json = vm.exec("s", "echo out; echo err >&2; exit 5", {"--json"});
    CHECK(field(json.out, "/stdout") == "out\n");
    CHECK(field(json.out, "/stderr") == "err\n");
    CHECK(field(json.out, "/exit_code") == "5");

    const std::string id = vm.detached("s", "echo up; exec sleep 1000");
    CHECK(comes_true([&] { return vm.call({"logs", "s", id}).out == "up\n"; }));
    const Outcome ps = vm.call({"ps", "s", "--json"});
    INFO(ps.show());
    CHECK(contains(ps.out, "sleep 1000"));
    CHECK(vm.call({"kill", "s", id}).code == 0);
    CHECK(vm.call({"wait", "s", id}).code == 143);
    const Outcome stats = vm.call({"stats", "s", "--json"});
    INFO(stats.show());
    CHECK(std::atol(field(stats.out, "/disk_bytes").c_str()) > 0);
    CHECK(std::atol(field(stats.out, "/memory_bytes").c_str()) > 0);
    CHECK(field(stats.out, "/disk_files") == "null");
    CHECK(contains(vm.call({"events", "s"}).out, "exec_started"));
    CHECK(contains(vm.call({"ls"}).out, "running"));
    CHECK(vm.call({"rm", "s"}).code != 0);
    const pid_t qemu = machine_of(vm.init("s"));
    REQUIRE(qemu > 0);
    CHECK(vm.call({"rm", "-f", "s"}).code == 0);
    CHECK(comes_true([&] { return is_gone(qemu); }));
    CHECK(!exists(vm.state_dir() + "/sessions/s"));
  }

  TEST_CASE("vm session: a terminal has its size, its signals and its shell") {
    SKIP_UNLESS("vm");
    SKIP_UNLESS("pty");
    const Machines vm;
    vm.start("s");
    Pty pty(31, 97);
    Spec spec = vm.spec({"session", "shell", "s"});
    spec.pty = &pty;
    Child shell(spec);
    pty.type("stty size; echo ready-$((1+1))\n");
    CHECK(pty.wait_for("31 97", 30));
    CHECK(pty.wait_for("ready-2", 30));
    pty.resize(20, 50);
    pty.type("sleep 1000\n");
    pty.watch(0.5);
    pty.type("\x03");
    pty.type("stty size; exit 4\n");
    CHECK(pty.wait_for("20 50", 30));
    CHECK(comes_true([&] {
      pty.watch(0.02);
      return !shell.running();
    }));
    CHECK(shell.wait().code == 4);
  }

  TEST_CASE("vm session: files are kept over a stop, and are copied both ways") {
    SKIP_UNLESS("vm");
    const Machines vm;
    const std::string from = vm.dir().at("tree");
    run({.argv = {"/bin/sh",
                  "-c",
                  "mkdir -p $0/sub && head -c 3000000 /dev/urandom >$0/sub/big && echo x >$0/small "
                  "&& ln -s small $0/link",
                  from},
         .as = &subject()});
    vm.start("s", {"--disk", "100M"});
    CHECK(vm.exec("s", "head -c 200M /dev/zero >/work/big").code != 0);
    CHECK(vm.out("s", "rm /work/big; echo there") == "there");
    CHECK(vm.out("s", "echo kept | tee /work/f ~/f >/tmp/f; (setsid sleep 1000 &)").empty());
    const Outcome in = vm.call({"cp", from, "s:/work/tree"});
    INFO(in.show());
    CHECK(in.code == 0);
    CHECK(vm.out("s", "cat /work/tree/small; readlink /work/tree/link") == "x\nsmall");
    vm.stop("s");
    CHECK(std::atol(field(vm.call({"stats", "s", "--json"}).out, "/disk_bytes").c_str()) > 3000000);
    CHECK(exists(vm.file("s", "disk")));
    const Outcome refused = vm.call({"cp", "--no-start", "s:/work/f", vm.dir().at("f")});
    INFO(refused.show());
    CHECK(refused.code != 0);
    CHECK(vm.state("s") == "stopped");
    const std::string to = vm.dir().at("back");
    const Outcome back = vm.call({"cp", "s:/work/tree", to});  // starts it
    INFO(back.show());
    CHECK(back.code == 0);
    CHECK(run({.argv = {"/usr/bin/diff", "-r", from, to}}).code == 0);
    CHECK(vm.out("s", "cat /work/f ~/f; ls /tmp; pgrep sleep; true") == "kept\nkept");
  }

  TEST_CASE("vm session: a paused one stands still, and still answers, goes on and ends") {
    SKIP_UNLESS("vm");
    const Machines vm;
    vm.start("s");
    const std::string id = vm.detached("s", "while :; do echo x >>/work/ticks; sleep 0.05; done");
    const std::string other = vm.detached("s", "exec sleep 1000");
    CHECK(comes_true([&] { return vm.exec("s", "test -s /work/ticks").code == 0; }));
    CHECK(vm.call({"pause", "s"}).code == 0);
    CHECK(vm.state("s") == "paused");
    const std::string first = field(vm.call({"stats", "s", "--json"}).out, "/cpu_s");
    pause(2.5);
    const Outcome stats = vm.call({"stats", "s", "--json"});
    CHECK(std::atof(field(stats.out, "/cpu_s").c_str()) - std::atof(first.c_str()) < 0.2);
    CHECK(contains(vm.call({"ps", "s"}).out, "sleep 1000"));
    CHECK(vm.call({"kill", "s", other, "-s", "KILL"}).code == 0);
    CHECK(vm.call({"wait", "s", other}).code == 137);
    CHECK(vm.exec("s", "true", {"--no-start"}).code == 125);
    CHECK(vm.state("s") == "paused");
    CHECK(vm.call({"resume", "s"}).code == 0);
    const std::string lines = vm.out("s", "wc -l </work/ticks");
    CHECK(vm.comes("s", "test $(wc -l </work/ticks) -gt " + lines));
    const long apart = std::atol(vm.out("s", "date +%s").c_str()) - ::time(nullptr);
    CHECK(std::abs(apart) <= 1);  // its clock stood meanwhile
    CHECK(vm.call({"pause", "s"}).code == 0);
    vm.stop("s");
    CHECK(vm.call({"wait", "s", id}).code == 143);
    vm.again("s");
    CHECK(vm.out("s", "test -s /work/ticks && echo there") == "there");
  }

  TEST_CASE("vm session: an idle one pauses by itself, exec wakes it") {
    SKIP_UNLESS("vm");
    const Machines vm;
    vm.start("s", {"--set", "session.idle_pause=1s"});
    CHECK(comes_true([&] { return vm.state("s") == "paused"; }));
    CHECK(vm.out("s", "echo awake") == "awake");
  }

  TEST_CASE("vm session: a machine ends with its supervisor, and its files survive both") {
    SKIP_UNLESS("vm");
    const Machines vm;
    vm.start("s");
    vm.out("s", "echo kept >/work/f; sync; echo young >/work/young");
    pause(5);  // it is on the disk within a few seconds, without a sync
    pid_t qemu = machine_of(vm.init("s"));
    REQUIRE(qemu > 0);
    vm.detached("s", "while :; do echo x >>/work/more; done");
    ::kill(vm.supervisor("s"), SIGKILL);
    CHECK(comes_true([&] { return is_gone(qemu); }));
    CHECK(vm.state("s") == "crashed");
    vm.again("s");
    CHECK(vm.out("s", "cat /work/f /work/young") == "kept\nyoung");
    qemu = machine_of(vm.init("s"));
    REQUIRE(qemu > 0);
    ::kill(qemu, SIGKILL);
    CHECK(comes_true([&] { return vm.state("s") == "stopped"; }));
    CHECK(contains(vm.show("s", "/end_reason"), "ended unexpectedly"));
    CHECK(vm.out("s", "cat /work/f") == "kept");  // starts it
  }

  TEST_CASE("vm session: one that hangs delays questions, a stop ends it") {
    SKIP_UNLESS("vm");
    const Machines vm;
    vm.start("s");
    const std::string id = vm.detached("s", "exec sleep 1000");
    const pid_t qemu = machine_of(vm.init("s"));
    REQUIRE(qemu > 0);
    ::kill(qemu, SIGSTOP);
    const double began = now();
    for (const Args& question : {Args{"ps", "s"},
                                 Args{"stats", "s"},
                                 Args{"pause", "s"},
                                 Args{"cp", "s:/etc/hostname", "-"},
                                 Args{"exec", "s", "--", "true"}}) {
      const Outcome o = vm.call(question);
      INFO(o.show());
      CHECK(o.code != 0);
      CHECK(contains(o.err, "answer"));
      if (question[0] != "cp" && question[0] != "pause") {
        CHECK(contains(o.err, "sbx session stop s"));
      }
    }
    CHECK(vm.call({"kill", "s", id, "-s", "KILL"}).code == 0);
    CHECK(vm.call({"show", "s"}).code == 0);
    CHECK(now() - began < 25 * slowness());
    const Outcome stopped = vm.call({"stop", "s"});
    INFO(stopped.show());
    CHECK(stopped.code == 0);
    CHECK(stopped.seconds < 25 * slowness());
    CHECK(is_gone(qemu));
    CHECK(vm.state("s") == "stopped");
    vm.again("s");
    ::kill(machine_of(vm.init("s")), SIGSTOP);
    const Outcome removed = vm.call({"rm", "-f", "s"});
    INFO(removed.show());
    CHECK(removed.code == 0);
    CHECK(removed.seconds < 10 * slowness());
  }

  TEST_CASE("vm session: one of an image has its files and users, and outlives its name") {
    SKIP_UNLESS("vm");
    SKIP_UNLESS("image-ids");
    SKIP_UNLESS("busybox");
    const Images files;
    const std::string tar =
        files.tar("a.tar",
                  "mkdir -p bin etc srv; cp /bin/busybox bin/busybox;"
                  "for a in sh cat id ls stat echo; do ln -s busybox bin/$a; done;"
                  "printf 'root:x:0:0::/root:/bin/sh\\napp:x:33:44::/srv:/bin/sh\\n' >etc/passwd;"
                  "printf 'root:x:0:\\napp:x:44:\\n' >etc/group; echo lower >etc/own");
    const Machines vm;
    vm.sbx({"image", "rm", "small"});
    const Outcome imported = vm.sbx({"image", "import", tar, "small"});
    INFO(imported.show());
    REQUIRE(imported.code == 0);
    vm.start("s", {"--image", "small"});
    const auto sh = [&](const std::string& code, const Args& flags = {}) {
      Args args{"exec", "s"};
      args.insert(args.end(), flags.begin(), flags.end());
      args.insert(args.end(), {"--", "/bin/sh", "-c", code});
      const Outcome o = vm.call(args);
      INFO(o.show());
      CHECK(o.code == 0);
      return trimmed(o.out);
    };
    CHECK(sh("cat /etc/own; id -u; ls /") != "");
    CHECK(sh("id -u; id -g", {"-u", "app"}) == "33\n44");
    CHECK(sh("echo new >/etc/own; cat /etc/own") == "new");
    vm.stop("s");
    CHECK(vm.sbx({"image", "rm", "small"}).code == 0);
    CHECK(vm.sbx({"gc"}).code == 0);
    vm.again("s");
    CHECK(sh("cat /etc/own") == "new");
  }

  TEST_CASE("vm session: its disk is kept, gone back to and forked while it is stopped") {
    SKIP_UNLESS("vm");
    const Machines vm;
    vm.start("s");
    vm.out("s", "echo one >/work/f");
    for (const Args& needs_layers : {Args{"diff", "s"},
                                     Args{"apply", "s"},
                                     Args{"export", "s", "-o", vm.dir().at("x.tar")},
                                     Args{"commit", "s", "image"}}) {
      const Outcome o = vm.call(needs_layers);
      INFO(o.show());
      CHECK(o.code != 0);
      CHECK(contains(o.err, "virtual machine"));
      CHECK(contains(o.err, "sbx session cp s:"));
    }
    const Outcome alive = vm.call({"checkpoint", "s"});
    INFO(alive.show());
    CHECK(alive.code != 0);
    CHECK(contains(alive.err, "sbx session stop s"));
    vm.stop("s");
    const Outcome kept = vm.call({"checkpoint", "s", "c"});
    INFO(kept.show());
    CHECK(kept.code == 0);
    CHECK(vm.out("s", "echo two >/work/f; cat /work/f") == "two");
    const Outcome forked = vm.call({"fork", "s", "t", "--from", "c"});
    INFO(forked.show());
    CHECK(forked.code == 0);
    CHECK(vm.out("t", "cat /work/f") == "one");
    CHECK(vm.show("t", "/forked_from") == "s");
    CHECK(vm.call({"rm", "-f", "t"}).code == 0);
    const Outcome restored = vm.call({"restore", "s", "c"});  // stops it and starts it again
    INFO(restored.show());
    CHECK(restored.code == 0);
    CHECK(vm.out("s", "cat /work/f") == "one");
    CHECK(vm.call({"restore", "s", "auto1"}).code == 0);
    CHECK(vm.out("s", "cat /work/f") == "two");
    CHECK(vm.call({"checkpoints", "s", "--rm", "c", "--rm", "auto1", "--rm", "auto2"}).code == 0);
    const Outcome disks =
        run({.argv = {"/usr/bin/find", vm.state_dir() + "/sessions/s", "-name", "disk*"}});
    CHECK(lines_of(disks.out).size() == 1);
    CHECK(vm.out("s", "cat /work/f") == "two");
  }
}

}  // namespace sbx::test
