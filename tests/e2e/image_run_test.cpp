// image_run_test: programs whose root is an image: what they may, what they see, and that a hostile
// image reaches nothing of the host.
#include <sys/stat.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

/// Writes a tar file, or with a configuration the archive that `docker save` makes. `sys.argv`: the
/// file, the configuration, and "NAME|KIND|MODE|UID:GID|TEXT" of each entry; TEXT of the kind "b"
/// is the file that is read.
constexpr const char* kWriter = R"(
import hashlib, io, json, sys, tarfile
def add(tar, name, data):
    info = tarfile.TarInfo(name); info.size = len(data); tar.addfile(info, io.BytesIO(data))
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode='w', format=tarfile.GNU_FORMAT) as tar:
    for entry in sys.argv[3:]:
        name, kind, mode, owner, text = entry.split('|', 4)
        info = tarfile.TarInfo(name); info.mode = int(mode, 8)
        info.uid, info.gid = map(int, owner.split(':'))
        data = b''
        if kind == 'd': info.type = tarfile.DIRTYPE
        elif kind == 'l': info.type = tarfile.SYMTYPE; info.linkname = text
        elif kind == 'b': data = open(text, 'rb').read()
        else: data = text.encode()
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
data = layer.getvalue()
if sys.argv[2] == '':
    open(sys.argv[1], 'wb').write(data)
    sys.exit()
config = {'architecture': 'amd64', 'os': 'linux', 'config': json.loads(sys.argv[2]),
          'rootfs': {'type': 'layers', 'diff_ids': ['sha256:' + hashlib.sha256(data).hexdigest()]}}
with tarfile.open(sys.argv[1], 'w') as tar:
    add(tar, 'manifest.json', json.dumps([{'Config': 'config.json', 'RepoTags': None,
                                           'Layers': ['layer.tar']}]).encode())
    add(tar, 'config.json', json.dumps(config).encode())
    add(tar, 'layer.tar', data)
)";

void make_dirs(const WorkDir& dir, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const Outcome made = run({.argv = {"/bin/mkdir", dir.at(name)}, .as = &subject()});
    REQUIRE(made.code == 0);
  }
}

/// Enough to run a shell.
Args with_shell(const Args& more) {
  Args entries{"bin|d|755|0:0|",
               "bin/busybox|b|755|0:0|/bin/busybox",
               "etc|d|755|0:0|",
               "etc/passwd|f|644|0:0|root:x:0:0:root:/root:/bin/sh\n"
               "app:x:1000:1001:app:/home/app:/bin/sh\n",
               "etc/group|f|644|0:0|root:x:0:\napp:x:1001:\nextra:x:44:app\n",
               "root|d|700|0:0|",
               "home|d|755|0:0|",
               "home/app|d|700|1000:1001|",
               "home/app/secret|f|600|1000:1001|of app\n"};
  for (const char* tool :
       {"sh", "ls",    "cat",   "id",    "env",  "stat",   "chown",   "chmod", "mount",
        "su", "touch", "mkdir", "mknod", "echo", "pwd",    "rm",      "head",  "grep",
        "wc", "true",  "ln",    "dd",    "find", "chroot", "readlink"}) {
    entries.push_back(std::string("bin/") + tool + "|l|777|0:0|busybox");
  }
  entries.insert(entries.end(), more.begin(), more.end());
  return entries;
}

/// A state directory of its own with images in it.
class Images {
 public:
  Images() : path_(dir_.at("state")) {}

  Outcome import(const std::string& name, const Args& entries, const std::string& config = {}) {
    const std::string file = dir_.at(name + ".tar");
    Args argv{"/usr/bin/python3", "-c", kWriter, file, config};
    argv.insert(argv.end(), entries.begin(), entries.end());
    const Outcome written = test::run({.argv = argv, .as = &subject()});
    if (written.code != 0) return written;
    return call({"image", "import", file, name});
  }
  Spec spec(Args args) const {
    Spec spec = sbx_spec(std::move(args));
    spec.env = environment_of(subject());
    spec.env.push_back("SBX_STATE_DIR=" + path_);
    return spec;
  }
  Outcome call(Args args) const { return test::run(spec(std::move(args))); }
  /// `sbx run --image NAME FLAGS… -- /bin/sh -c CODE`
  Outcome shell(const std::string& name, const std::string& code, const Args& flags = {}) const {
    Args args{"run", "--image", name};
    args.insert(args.end(), flags.begin(), flags.end());
    args.insert(args.end(), {"--", "/bin/sh", "-c", code});
    return call(std::move(args));
  }
  const WorkDir& dir() const { return dir_; }
  const std::string& state() const { return path_; }

 private:
  WorkDir dir_;
  std::string path_;
};

/// An image "box" with a shell and `more`, or the reason in `o`.
#define WITH_BOX(images, ...)                                                \
  SKIP_UNLESS("image-ids");                                                  \
  SKIP_UNLESS("busybox");                                                    \
  Images images;                                                             \
  {                                                                          \
    const Outcome made = images.import("box", with_shell(Args __VA_ARGS__)); \
    INFO(made.show());                                                       \
    REQUIRE(made.code == 0);                                                 \
  }

}  // namespace

TEST_SUITE("image") {
  TEST_CASE("image run: nothing of the host's programs and settings is there") {
    WITH_BOX(images, {});
    const Outcome o = images.shell(
        "box",
        "id; pwd; echo HOME=$HOME; ls /; ls /usr /lib 2>&1; cat /etc/hostname; ls /etc; "
        "cat /etc/passwd; echo $0");
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(contains(o.out, "uid=0(root) gid=0(root)"));
    CHECK(contains(o.out, "/work\nHOME=/root\n"));
    CHECK(contains(o.out, "ls: /usr: No such file"));
    CHECK(contains(o.out, "sbx\n"));
    CHECK(contains(o.out, "app:x:1000:1001"));
    CHECK(!contains(o.out, "sbx:x:1000"));
    for (const char* name : {"alternatives", "ld.so.cache", "nsswitch.conf"}) {
      CHECK(!contains(o.out, std::string(name) + "\n"));
    }
  }

  TEST_CASE("image run: what is changed is gone the next time, and never in the image") {
    WITH_BOX(images, {});
    const Outcome o = images.shell(
        "box",
        "echo x > /new; echo y >> /etc/passwd; rm -r /home/app; chmod 700 /bin; ls /home; "
        "ls / | grep new");
    INFO(o.show());
    CHECK(o.out == "new\n");
    const Outcome again = images.shell(
        "box", "ls /new; cat /home/app/secret; tail -n 1 /etc/passwd; stat -c %a /bin");
    INFO(again.show());
    CHECK(again.out == "of app\napp:x:1000:1001:app:/home/app:/bin/sh\n755\n");
    CHECK(names_in(images.state() + "/overlays").empty());
  }

  TEST_CASE("image run: root inside may do what installing packages needs, and not more") {
    WITH_BOX(images, {});
    const Outcome o = images.shell(
        "box",
        "grep -E 'Cap(Eff|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status; cat /home/app/secret; "
        "touch /f && chown 1000:1001 /f && chmod 4755 /f && stat -c '%u:%g %a' /f; "
        "mount -t tmpfs x /mnt && echo mounted; mknod /dev1 b 1 1 && echo device; "
        "su app -c 'id -u; cat /home/app/secret; cat /root/x; touch /bin/y; id -G'; chroot / id "
        "-u; "
        "echo x > /proc/sys/kernel/hostname; echo x > /dev/canary; exit 0");
    INFO(o.show());
    // CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE SYS_CHROOT
    // SETFCAP
    CHECK(contains(o.out, "CapEff:\t00000000800405fb\nCapBnd:\t00000000800405fb\n"));
    CHECK(contains(o.out, "NoNewPrivs:\t1\n"));
    CHECK(contains(o.out, "Seccomp:\t2\n"));
    CHECK(contains(o.out, "of app\n1000:1001 4755\n1000\nof app\n"));
    CHECK(contains(o.out, "44"));
    CHECK(contains(o.out, "\n0\n"));
    CHECK(!contains(o.out, "mounted"));
    CHECK(!contains(o.out, "device"));
    CHECK(contains(o.err, "/bin/y: Permission denied"));
    CHECK(contains(o.err, "/proc/sys/kernel/hostname: Read-only"));
    CHECK(contains(o.err, "/dev/canary: Read-only"));
  }

  TEST_CASE("image run: a set-user-id file of the image gains nothing") {
    WITH_BOX(images, {"suid|b|4755|0:0|/bin/busybox"});
    const Outcome o = images.shell(
        "box",
        "stat -c %a /suid; ln -s /suid /id; su app -c '/id -u; grep CapEff /proc/self/status'");
    INFO(o.show());
    CHECK(o.out == "4755\n1000\nCapEff:\t0000000000000000\n");
  }

  TEST_CASE("image run: the image's user, with its groups and home, and without capabilities") {
    SKIP_UNLESS("image-ids");
    SKIP_UNLESS("busybox");
    Images images;
    const Outcome made = images.import("box", with_shell({}), R"({"User": "app"})");
    INFO(made.show());
    REQUIRE(made.code == 0);
    const Outcome o = images.shell(
        "box",
        "id -u; id -g; id -G; echo $HOME; grep CapEff /proc/self/status; cat ~/secret; "
        "touch /work/mine && stat -c %u:%g /work/mine; touch /no");
    INFO(o.show());
    CHECK(o.out ==
          "1000\n1001\n1001 44\n/home/app\nCapEff:\t0000000000000000\nof app\n1000:1001\n");
    CHECK(o.code != 0);
    const Outcome nobody = images.import("bad", with_shell({}), R"({"User": "nobody-knows"})");
    REQUIRE(nobody.code == 0);
    const Outcome refused = images.shell("bad", "true");
    INFO(refused.show());
    CHECK(refused.code == 2);
    CHECK(contains(refused.err, "nobody-knows"));
  }

  TEST_CASE("image run: entry point, command, variables and directory are the image's") {
    SKIP_UNLESS("image-ids");
    SKIP_UNLESS("busybox");
    Images images;
    const Outcome made =
        images.import("box",
                      with_shell({}),
                      R"({"Entrypoint": ["/bin/echo", "entry"], "Cmd": ["cmd", "two"],
            "Env": ["PATH=/bin", "COLOUR=blue"], "WorkingDir": "/srv/app", "Volumes": {"/vol/a": {}}})");
    INFO(made.show());
    REQUIRE(made.code == 0);
    CHECK(images.call({"run", "--image", "box"}).out == "entry cmd two\n");
    CHECK(images.call({"run", "--image", "box", "--", "a b"}).out == "entry a b\n");
    CHECK(images.call({"run", "--image", "box", "--entrypoint", "pwd"}).out == "/srv/app\n");
    const Args env{"run", "--image", "box", "--entrypoint", "", "--", "env"};
    const Outcome plain = images.call(env);
    INFO(plain.show());
    CHECK(contains(plain.out, "PATH=/bin\n"));
    CHECK(contains(plain.out, "COLOUR=blue\n"));
    CHECK(contains(plain.out, "HOME=/root\n"));
    CHECK(!contains(plain.out, "sbx"));
    const Outcome over = images.call({"run",
                                      "--image",
                                      "box",
                                      "--entrypoint",
                                      "",
                                      "-e",
                                      "COLOUR=red",
                                      "-w",
                                      "/vol/a",
                                      "--",
                                      "sh",
                                      "-c",
                                      "echo $COLOUR; pwd"});
    INFO(over.show());
    CHECK(over.out == "red\n/vol/a\n");
    CHECK(images.call({"run", "--entrypoint", "x", "--", "true"}).code == 2);
    Spec by_variable = images.spec({"run"});
    by_variable.env.emplace_back("SBX_IMAGE=box");
    CHECK(run(by_variable).out == "entry cmd two\n");
    const Outcome json = images.call({"run", "--json", "--image", "box"});
    CHECK(field(json.out, "/image/name") == "box");
    CHECK(field(json.out, "/image/id").rfind("sha256:", 0) == 0);
  }

  TEST_CASE(
      "image run: code and scripts run with the image's interpreter, or say that it has none") {
    WITH_BOX(images, {});
    const std::string script = images.dir().write("a.sh", "#!/bin/sh\necho script $1 $0\n", 0755);
    const Outcome file = images.call({"run", "--image", "box", "-p", "base", script, "one"});
    INFO(file.show());
    CHECK(file.out == "script one /work/a.sh\n");
    const Outcome code = images.call({"run",
                                      "--image",
                                      "box",
                                      "-p",
                                      "bash",
                                      "--set",
                                      "language.interpreter=sh",
                                      "-c",
                                      "echo $0"});
    INFO(code.show());
    CHECK(code.code == 0);
    const Outcome none = images.call({"run", "--image", "box", "-c", "print(1)"});
    INFO(none.show());
    CHECK(none.code == 127);
    CHECK(contains(none.err, "image box has no python3"));
    const Outcome empty = images.call({"run", "--image", "box"});
    CHECK(empty.code == 2);
    CHECK(contains(empty.err, "does not say what to run"));
  }

  TEST_CASE("image run: an image that is not there is a mistake that names near ones") {
    WITH_BOX(images, {});
    const Outcome o = images.shell("bax", "true");
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(contains(o.err, "box"));
  }

  TEST_CASE("image run: inputs, mounts and artifacts work as without an image") {
    WITH_BOX(images, {"usr|d|755|0:0|", "usr/lib|d|755|0:0|", "lib|l|777|0:0|usr/lib"});
    const WorkDir& dir = images.dir();
    dir.write("in.txt", "input\n", 0600);
    make_dirs(dir, {"m", "rw"});
    dir.write("m/inner", "mounted\n", 0600);
    dir.write("rw/old", "old\n");
    const Outcome o = images.shell(
        "box",
        "cat /work/in.txt /lib/data/inner /usr/lib/data/inner; cat /over/old; echo new > /rw/new; "
        "echo changed > /over/old; cat /over/old; echo x > /work/in.txt; echo x > /lib/data/inner; "
        "stat -c %U /rw/old; readlink /lib; chmod 4755 /rw/new && echo suid; echo art > art",
        {"-i",
         dir.at("in.txt"),
         "-v",
         dir.at("m") + ":/lib/data",
         "-v",
         dir.at("rw") + ":/rw:rw",
         "-v",
         dir.at("rw") + ":/over:overlay",
         "-o",
         dir.at("out")});
    INFO(o.show());
    CHECK(o.out == "input\nmounted\nmounted\nold\nchanged\nroot\nusr/lib\n");
    CHECK(slurp(dir.at("rw/new")) == "new\n");
    CHECK(slurp(dir.at("rw/old")) == "old\n");
    CHECK(slurp(dir.at("in.txt")) == "input\n");
    CHECK(slurp(dir.at("out/art")) == "art\n");
    struct stat info {};
    REQUIRE(::stat(dir.at("rw/new").c_str(), &info) == 0);
    CHECK(info.st_uid == subject().uid);
    CHECK((info.st_mode & 06000) == 0);
  }

  TEST_CASE("image run: a limit of the disk is held for the root, too, or refused") {
    WITH_BOX(images, {});
    const std::string fill = "dd if=/dev/zero of=/big bs=1M count=80 2>&1; echo $?";
    const Outcome small = images.shell("box", fill, {"--disk", "32M"});
    INFO(small.show());
    CHECK((small.code == 125 || contains(small.out, "No space left")));
    const Outcome large = images.shell("box", fill, {"--disk", "400M", "-m", "256M"});
    INFO(large.show());
    if (large.code == 125) {
      CHECK(contains(large.err, "fix: "));
    } else {
      CHECK(contains(large.out, "0\n"));
    }
  }

  TEST_CASE("image run: hostile objects at the sandbox's places reach nothing of the host") {
    SKIP_UNLESS("image-ids");
    SKIP_UNLESS("busybox");
    const WorkDir victim;
    victim.write("file", "untouched\n");
    const std::string out = "../../../../../../../../.." + victim.path();
    struct Bad {
      const char* name;
      Args entries;
    };
    const std::vector<Bad> all{
        {"links",
         {"proc|l|777|0:0|" + out,
          "dev|l|777|0:0|" + out,
          "sys|l|777|0:0|" + out,
          "work|l|777|0:0|" + out,
          "tmp|l|777|0:0|" + out,
          "run|l|777|0:0|" + victim.path()}},
        {"files",
         {"proc|f|644|0:0|x",
          "dev|f|644|0:0|x",
          "sys|f|644|0:0|x",
          "work|f|644|0:0|x",
          "tmp|f|644|0:0|x",
          "run|f|644|0:0|x"}},
        {"inner",
         {"dev|d|755|0:0|",
          "dev/null|f|666|0:0|x",
          "dev/shm|l|777|0:0|" + out,
          "dev/pts|l|777|0:0|/proc/1/root",
          "etc/resolv.conf|l|777|0:0|" + out + "/file",
          "etc/hosts|l|777|0:0|" + victim.at("file"),
          "etc/hostname|d|755|0:0|",
          "proc|d|755|0:0|",
          "proc/kcore|f|644|0:0|x",
          "sys|d|755|0:0|",
          "sys/fs|l|777|0:0|" + out,
          "run|d|755|0:0|",
          "run/sbx|l|777|0:0|" + out}},
        {"null", {"dev|d|755|0:0|", "dev/null|l|777|0:0|" + victim.at("file")}},
        {"closed",
         {"proc|d|0|1000:1000|",
          "dev|d|0|1000:1000|",
          "work|d|0|1:1|",
          "tmp|d|0|1:1|",
          "run|d|0|1:1|"}},
    };
    Images images;
    for (const Bad& bad : all) {
      CAPTURE(bad.name);
      const Outcome made = images.import(bad.name, with_shell(bad.entries));
      INFO(made.show());
      if (made.code != 0) continue;  // refused by name: as good
      const Outcome o = images.shell(
          bad.name,
          "echo x > /dev/null; cat /proc/self/comm; echo y > /work/f; echo y > /tmp/f; echo y > "
          "/dev/shm/f; cat /etc/hosts /etc/hostname; head -c 3 /dev/zero | wc -c; ls -l /dev/null; "
          "head -c 1 /proc/kcore; ls /proc/1/root; exit 0",
          {"-v", victim.path() + ":/mnt/victim"});
      INFO(o.show());
      CHECK(o.code == 0);
      CHECK(contains(o.out, "cat\n127.0.0.1 localhost sbx\n"));
      CHECK(contains(o.out, "3\ncrw-rw-rw-"));
      CHECK(names_in(victim.path()) == std::vector<std::string>{"file"});
      CHECK(slurp(victim.at("file")) == "untouched\n");
    }
    const Outcome whole = images.import(
        "etc", {"bin|d|755|0:0|", "bin/busybox|b|755|0:0|/bin/busybox", "etc|l|777|0:0|" + out});
    INFO(whole.show());
    if (whole.code == 0) {
      const Outcome o = images.call({"run", "--image", "etc", "--", "/bin/busybox", "ls", "/etc"});
      INFO(o.show());
      CHECK(o.code == 0);
      CHECK(o.out == "hostname\nhosts\nresolv.conf\n");
    }
    CHECK(names_in(victim.path()) == std::vector<std::string>{"file"});
  }

  TEST_CASE("image run: a mount is not led over the sandbox's places by links of the image") {
    WITH_BOX(images,
             {"data|l|777|0:0|/proc", "srv|l|777|0:0|../../dev", "opt|l|777|0:0|/work/../etc"});
    const WorkDir& dir = images.dir();
    make_dirs(dir, {"m"});
    dir.write("m/f", "x\n");
    for (const char* target : {"/data", "/data/sys", "/srv/pts", "/opt"}) {
      CAPTURE(target);
      const Outcome o = images.shell("box", "true", {"-v", dir.at("m") + ":" + target});
      INFO(o.show());
      CHECK(o.code == 125);
      CHECK(contains(o.err, "belongs to the sandbox"));
    }
  }

  TEST_CASE("image run: neither PID 1 nor our binary is within reach, also for root inside") {
    WITH_BOX(images, {});
    const Outcome o =
        images.shell("box",
                     "for f in mem environ maps exe; do head -c 1 /proc/1/$f | wc -c; done "
                     "2>/dev/null | grep -v "
                     "'^0$'; readlink /proc/1/exe /proc/1/root; ls /proc/1/fd; "
                     "cd /tmp; ln -s /proc/self/exe me; /proc/self/exe --version; ./me --version; "
                     "printf '#!/proc/self/exe\\n' > s; chmod 755 s; ./s; exit 0",
                     {"-p", "base"});
    INFO(o.show());
    CHECK(!contains(o.out, "sbx "));
    CHECK(!contains(o.out, "/sbx"));
  }

  TEST_CASE("image run: a user without further ids is refused with the fix") {
    SKIP_UNLESS("second-user");
    SKIP_UNLESS("image-ids");
    if (subject_is_root()) return;
    // nobody has no line in /etc/subuid.
    const Identity nobody{"nobody", 65534, 65534, "/nonexistent"};
    const WorkDir dir(nobody);
    Spec spec = sbx_spec({"run", "--image", "none", "--", "true"});
    spec.as = &nobody;
    spec.env = {"PATH=/usr/bin:/bin", "SBX_STATE_DIR=" + dir.at("state")};
    const Outcome o = run(spec);
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(contains(o.err, "usermod --add-subuids"));
  }
}

}  // namespace sbx::test
