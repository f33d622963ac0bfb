// Writable root tests: what is written is kept, and nothing that a former run left is believed.
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/backend/jail_driver.h"

using namespace sbx;
using test::Identity;
using test::JailRequest;
using test::JailRun;
using test::Workspace;

namespace {

JailRun run(const Workspace& workspace, const std::string& script) {
  JailRequest request;
  request.upper = "up";
  request.script = script;
  return test::run_jail(workspace, std::move(request));
}

template <typename F>
void as_each(F test) {
  for (const Identity* who : test::identities()) {
    CAPTURE(who->name);
    Workspace workspace(*who);
    workspace.make_layer("up");
    test(workspace);
  }
}

/// Prepares the upper by hand, as a hostile former run could have left it.
void plant(const Workspace& workspace, const std::string& script) {
  workspace.on_host("mkdir -p " + workspace.in_root("up", "") + " && cd " +
                    workspace.in_root("up", "") + " && " + script);
  workspace.give_to_job("up");
}

/// What holds in every jail whatever its root looks like.
constexpr const char* kSound =
    "test -c /dev/null && echo x > /dev/null && test -r /proc/self/status && "
    "! echo x 2>/dev/null > /proc/sys/kernel/core_pattern && "
    "test \"$(stat -f -c %T /proc)\" = proc && test -d /usr/bin && "
    "! touch /usr/x 2>/dev/null && ! touch /dev/x 2>/dev/null && ! mv /dev /d 2>/dev/null && "
    "test \"$(stat -f -c %T /tmp)\" = tmpfs && touch /tmp/x /dev/shm/x /work/x /home/sbx/x && "
    "test \"$(stat -c %u /work)\" = 1000 && test ! -s /proc/kcore && test ! -s /proc/keys";

}  // namespace

TEST_CASE("writable root: files in /work and /home/sbx are there again in the next run") {
  as_each([](const Workspace& workspace) {
    const JailRun first =
        run(workspace, "id -u; echo kept > /work/a; echo too > $HOME/b; echo no > /tmp/c");
    CHECK(first.error == "");
    CHECK(first.status == 0);
    CHECK(first.out == "1000\n");
    const JailRun second = run(
        workspace, "cat /work/a /home/sbx/b; ls /tmp; stat -c '%u %g %a' /work /home/sbx /work/a");
    CHECK(second.error == "");
    CHECK(second.out == "kept\ntoo\n1000 1000 755\n1000 1000 755\n1000 1000 644\n");
  });
}

TEST_CASE("writable root: a fresh one holds no change but the job's own directories") {
  as_each([](const Workspace& workspace) {
    CHECK(run(workspace, kSound).status == 0);
    workspace.on_host("cd " + workspace.in_root("up", "") +
                      " && test \"$(find . | sort | tr '\\n' ' ')\" = "
                      "'. ./home ./home/sbx ./home/sbx/x ./work ./work/x '");
  });
}

TEST_CASE("writable root: a lower layer shows through, and what is deleted stays away") {
  as_each([](const Workspace& workspace) {
    CHECK(run(workspace, "mkdir /work/d; echo 1 > /work/d/a; echo 2 > /work/d/b").status == 0);
    workspace.on_host("mv " + workspace.layer("up") + " " + workspace.layer("one"));
    workspace.make_layer("up");
    JailRequest request;
    request.lowers = {"one"};
    request.upper = "up";
    request.script = "cat /work/d/a; rm /work/d/a; echo 3 >> /work/d/b";
    CHECK(test::run_jail(workspace, request).out == "1\n");
    request.script = "ls /work/d; cat /work/d/b; rm -r /work/d; mkdir /work/d; ls -A /work/d";
    CHECK(test::run_jail(workspace, request).out == "b\n2\n3\n");
    request.script = "ls -A /work/d";
    const JailRun last = test::run_jail(workspace, request);
    CHECK(last.error == "");
    CHECK(last.out == "");
  });
}

TEST_CASE("writable root: a layer that is missing is named, and nothing runs") {
  as_each([](const Workspace& workspace) {
    JailRequest request;
    request.lowers = {"gone"};
    request.upper = "up";
    request.script = "true";
    CHECK(test::run_jail(workspace, request).error.find("/layers/gone") != std::string::npos);
  });
}

TEST_CASE("writable root: links at the places that are mounted on reach nothing of the host") {
  as_each([](const Workspace& workspace) {
    workspace.on_host("mkdir " + workspace.state() + "/victim");
    const std::string victim = workspace.state() + "/victim";
    plant(workspace,
          "for n in proc dev sys usr work tmp home run var etc; do ln -s " + victim + " $n; done");
    const JailRun jail = run(workspace, kSound);
    CHECK(jail.error == "");
    CHECK(jail.status == 0);
    workspace.on_host("test -z \"$(ls -A " + victim + ")\"");
    // Nothing is lost: the links are beside their places.
    workspace.on_host("test \"$(readlink " + workspace.in_root("up", "/work.sbx-displaced-1") +
                      ")\" = " + victim);
    CHECK(run(workspace, "test -e /work/x").status == 0);
  });
}

TEST_CASE("writable root: links to the inside and up do not lead a mount astray") {
  as_each([](const Workspace& workspace) {
    plant(workspace,
          "ln -s / proc; ln -s ../../../../../../../../../../proc dev; ln -s . sys; "
          "ln -s usr tmp; mkdir home; ln -s ../work home/sbx; ln -s proc work; "
          "mkdir etc; ln -s /proc/1/root/etc/passwd etc/resolv.conf; ln -s / etc/alternatives");
    const JailRun jail = run(workspace, kSound);
    CHECK(jail.error == "");
    CHECK(jail.status == 0);
  });
}

TEST_CASE("writable root: files, pipes and sockets in the way are moved aside") {
  as_each([](const Workspace& workspace) {
    plant(workspace,
          "echo mine > proc; mkfifo dev; echo mine > work; mkdir -p home sys; mkfifo home/sbx; "
          "echo x > sys/fs; echo data > tmp; mkdir etc; mkdir etc/ld.so.cache; "
          "echo deep > etc/ld.so.cache/f");
    const JailRun jail = run(workspace, kSound);
    CHECK(jail.error == "");
    CHECK(jail.status == 0);
    const JailRun look = run(workspace,
                             "cat /proc.sbx-displaced-1 /work.sbx-displaced-1 "
                             "/tmp.sbx-displaced-1 /etc/ld.so.cache.sbx-displaced-1/f");
    CHECK(look.out == "mine\nmine\ndata\ndeep\n");
  });
}

TEST_CASE(
    "writable root: a directory of a lower layer in a file's place is moved with its content") {
  as_each([](const Workspace& workspace) {
    workspace.on_host("mkdir -p " + workspace.in_root("one", "/etc/ld.so.cache/a/b") +
                      " && echo deep > " + workspace.in_root("one", "/etc/ld.so.cache/a/b/c") +
                      " && chmod 711 " + workspace.in_root("one", "/etc/ld.so.cache/a"));
    workspace.give_to_job("one");
    JailRequest request;
    request.lowers = {"one"};
    request.upper = "up";
    request.script = std::string(kSound) +
                     "&& cat /etc/ld.so.cache.sbx-displaced-1/a/b/c && "
                     "stat -c %a /etc/ld.so.cache.sbx-displaced-1/a && test -f /etc/ld.so.cache";
    const JailRun jail = test::run_jail(workspace, request);
    CHECK(jail.error == "");
    CHECK(jail.out == "deep\n711\n");
  });
}

TEST_CASE("writable root: places that nobody may enter are opened again, the job's own stay its") {
  as_each([](const Workspace& workspace) {
    plant(workspace,
          "mkdir -p proc dev work home/sbx etc sys tmp var; chmod 700 home/sbx; "
          "chmod 000 proc dev work home etc sys tmp .");
    const JailRun jail = run(workspace, std::string(kSound) + "&& stat -c %a /home/sbx");
    CHECK(jail.error == "");
    CHECK(jail.status == 0);
    CHECK(jail.out == "700\n");
  });
}

TEST_CASE("writable root: a former run that moved everything away finds a sound system again") {
  as_each([](const Workspace& workspace) {
    if (workspace.who().uid == 0) return;  // there the root belongs to PID 1, not to the job
    const JailRun first = run(workspace,
                              "mkdir /old; for n in etc home work var bin lib lib64 sbin; do "
                              "/usr/bin/mv /$n /old/ 2>/dev/null; done; chmod 0 /; :");
    CHECK(first.error == "");
    const JailRun second = run(workspace, kSound);
    CHECK(second.error == "");
    CHECK(second.status == 0);
  });
}

TEST_CASE("writable root: whatever is in the work directory is no obstacle") {
  as_each([](const Workspace& workspace) {
    const std::string ovl = workspace.layer("up") + "/ovl";
    workspace.on_host("mkdir -p " + ovl + "/root/work/a/b/c/d " + ovl + "/root/index; touch " +
                      ovl + "/root/work/a/b/c/d/f; chmod 000 " + ovl + "/root/work/a");
    CHECK(run(workspace, kSound).status == 0);
    workspace.on_host("rm -rf " + ovl + "; ln -s / " + ovl);
    CHECK(run(workspace, kSound).status == 0);
    workspace.on_host("chmod -R u+rwx " + ovl + "; rm -rf " + ovl + "; echo > " + ovl);
    CHECK(run(workspace, kSound).status == 0);
  });
}

TEST_CASE("writable root: whiteouts and opaque directories at the places do not stop a start") {
  as_each([](const Workspace& workspace) {
    if (workspace.who().uid == 0) {
      plant(workspace, "for n in proc dev sys work etc bin lib64; do mknod $n c 0 0; done");
    } else {
      CHECK(run(workspace, "rm -rf --no-preserve-root / 2>/dev/null; :").error == "");
    }
    workspace.on_host("setfattr -n user.overlay.opaque -v y " + workspace.in_root("up", "") +
                      " 2>/dev/null || true");
    const JailRun jail = run(workspace, kSound);
    CHECK(jail.error == "");
    CHECK(jail.status == 0);
  });
}

TEST_CASE("writable root: a job can leave neither a device nor a setuid file") {
  as_each([](const Workspace& workspace) {
    const JailRun jail =
        run(workspace,
            "! mknod /work/n b 8 0 2>/dev/null; cp /usr/bin/id /work/i; ! chmod 4755 /work/i "
            "2>/dev/null; "
            "grep -c NoNewPrivs:.1 /proc/self/status; "
            "awk '$5 == \"/\" {print $6}' /proc/self/mountinfo | grep -c nosuid,nodev");
    CHECK(jail.out == "1\n1\n");
  });
}

TEST_CASE("writable root: a job reads nothing of where its layers lie") {
  as_each([](const Workspace& workspace) {
    const JailRun jail = run(workspace, "cat /proc/self/mountinfo /proc/mounts");
    CHECK(jail.error == "");
    CHECK(jail.out.find("lowerdir=0,upperdir=u,workdir=w") != std::string::npos);
    CHECK(jail.out.find(workspace.state()) == std::string::npos);
    CHECK(jail.out.find("base-") == std::string::npos);
  });
}

TEST_CASE("writable root: a limit of the disk that nothing holds is refused") {
  Workspace workspace(test::self());
  workspace.make_layer("up");
  JailRequest request;
  request.upper = "up";
  request.script = "true";
  request.profile.limits.disk = Bytes{1U << 30};
  CHECK(test::run_jail(workspace, request).error == "");  // of a shipped profile
  request.profile.origins["limits.disk"] = {profile::Layer::kFlag, "--disk"};
  CHECK(test::run_jail(workspace, request).error.find("limits.best_effort") != std::string::npos);
  request.profile.limits.best_effort = true;
  CHECK(test::run_jail(workspace, request).error == "");
}
