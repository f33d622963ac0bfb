// cron_test: unattended runs - locks, deadlines, retries, records, dated outputs and what is kept.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

/// A state directory and a place for outputs of the subject's own.
class Scene {
 public:
  std::string state() const { return dir_.at("state"); }
  std::string at(const std::string& name) const { return dir_.at(name); }
  const WorkDir& dir() const { return dir_; }

  Spec spec(Args args) const {
    Spec spec = sbx_spec(std::move(args));
    spec.env = environment_of(subject());
    spec.env.push_back("SBX_STATE_DIR=" + state());
    spec.cwd = dir_.path();
    return spec;
  }
  Outcome call(Args args) const { return run(spec(std::move(args))); }
  Outcome bash(std::string_view code, const Args& flags) const {
    return call(bash_args(code, flags));
  }
  /// A run of `code` in the background, once it has printed "ready".
  std::unique_ptr<Child> start(const std::string& code, const Args& flags) const {
    auto child = std::make_unique<Child>(spec(bash_args("echo ready; " + code, flags)));
    REQUIRE(child->wait_for_text("ready", 30));
    return child;
  }
  /// One value of each recorded run, the newest first.
  std::vector<std::string> column(std::string_view pointer) const {
    std::vector<std::string> out;
    for (const std::string& line : lines_of(call({"runs", "ls", "--json"}).out)) {
      out.push_back(field(line, pointer));
    }
    return out;
  }

 private:
  WorkDir dir_;
};

using Strings = std::vector<std::string>;

/// A number of seconds to sleep that no other test process uses, to find the sleeper by.
std::string marker() {
  return "4711." + std::to_string(::getpid());
}

bool is_alive(const std::string& needle) {
  for (const std::string& name : names_in("/proc")) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (contains(slurp("/proc/" + name + "/cmdline"), needle)) return true;
  }
  return false;
}

}  // namespace

TEST_SUITE("jail") {
  TEST_CASE("cron: silence when all is well, one line with the cause and more when not") {
    const Scene scene;
    Outcome o = scene.bash("true", {"--record"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out + o.err == "");
    o = scene.bash("echo hello; exit 3", {"--record", "--lock", "a"});
    INFO(o.show());
    CHECK(o.code == 3);
    CHECK(o.out == "hello\n");
    CHECK(lines_of(o.err).size() == 1);
    CHECK(contains(o.err, "exit status 3"));
    const std::string id = scene.column("/id").front();
    CHECK(contains(o.err, "sbx runs show " + id));
    o = scene.bash("kill -SEGV $$", {"--deadline", "1m"});
    CHECK(o.code == 139);
    CHECK(lines_of(o.err).size() == 1);
    CHECK(contains(o.err, "SIGSEGV"));
    o = scene.call(command_args({"no-such-program"}, {"--deadline", "1m"}));
    CHECK(o.code == 127);
    CHECK(lines_of(o.err).size() == 1);
  }

  TEST_CASE("cron: nothing is needed of environment, locale, terminal or current directory") {
    const Scene scene;
    Spec spec = scene.spec(
        bash_args("echo x > f", {"--lock", "a", "--keep", "2", "-o", scene.at("out/%Y-%m-%d")}));
    spec.env = {"SBX_STATE_DIR=" + scene.state()};
    spec.cwd = "/";
    Outcome o = run(spec);
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.err == "");
    CHECK(names_in(scene.at("out")).size() == 1);
    // A current directory that is gone.
    const std::string sbx = sbx_path();
    o = run({.argv = {"/bin/sh",
                      "-c",
                      "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" run --lock a --record "
                      "-p bash -c 'echo fine'",
                      sbx},
             .env = {"SBX_STATE_DIR=" + scene.state(), "PATH=/usr/bin:/bin"},
             .cwd = scene.dir().path(),
             .as = &subject()});
    INFO(o.show());
    CHECK(o.out == "fine\n");
    // Not even a home of one's own: the state directory is found or refused with what mends it.
    spec = scene.spec(bash_args("true", {"--record"}));
    spec.env = {"SBX_STATE_DIR=/proc/nowhere"};
    o = run(spec);
    CHECK(o.code == 125);
    CHECK(contains(o.err, "SBX_STATE_DIR"));
  }

  TEST_CASE("cron: a held lock skips the new run, quietly and with a cause of its own") {
    const Scene scene;
    const auto holder = scene.start("sleep 60", {"--lock", "a"});
    Outcome o = scene.bash("echo never", {"--lock", "a", "--record"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.out + o.err == "");
    o = scene.bash("echo never", {"--lock", "a", "--on-overlap", "skip", "--json"});
    CHECK(field(o.out, "/cause") == "skipped");
    CHECK(field(o.out, "/exit_code") == "0");
    CHECK(contains(field(o.out, "/skipped"), "process " + std::to_string(holder->pid())));
    CHECK(scene.column("/state") == Strings{"skipped"});
    CHECK(scene.bash("echo other", {"--lock", "b"}).out == "other\n");
    holder->kill(SIGTERM);
    CHECK(holder->wait().code == 143);
    CHECK(scene.bash("echo again", {"--lock", "a"}).out == "again\n");
  }

  TEST_CASE("cron: wait takes the lock when it comes, and never longer than the deadline") {
    const Scene scene;
    const auto holder = scene.start("sleep 60", {"--lock", "a"});
    const Outcome late =
        scene.bash("echo never", {"--lock", "a", "--on-overlap", "wait", "--deadline", "300ms"});
    INFO(late.show());
    CHECK(late.code == 124);
    CHECK(late.out == "");
    CHECK(lines_of(late.err).size() == 1);
    CHECK(contains(late.err, "the deadline of 300ms"));
    CHECK(contains(late.err, "lock a is held by process"));
    Child waiting(scene.spec(bash_args("echo mine", {"--lock", "a", "--on-overlap", "wait"})));
    pause(0.3 * slowness());
    CHECK(waiting.running());
    Child ended(scene.spec(bash_args("echo never", {"--lock", "a", "--on-overlap", "wait"})));
    pause(0.3 * slowness());
    ended.kill(SIGTERM);
    const Outcome o = ended.wait();
    CHECK(o.code == 143);
    holder->kill(SIGTERM);
    CHECK(holder->wait().code == 143);
    CHECK(waiting.wait().out == "mine\n");
  }

  TEST_CASE("cron: a killed waiter leaves the lock to others") {
    const Scene scene;
    const auto holder = scene.start("sleep 60", {"--lock", "a"});
    {
      Child waiting(scene.spec(bash_args("echo never", {"--lock", "a", "--on-overlap", "wait"})));
      pause(0.5 * slowness());
      waiting.kill(SIGKILL);
      waiting.wait();
    }
    holder->kill(SIGTERM);
    holder->wait();
    CHECK(scene.bash("echo mine", {"--lock", "a"}).out == "mine\n");
  }

  TEST_CASE("cron: kill ends the holder and takes its place, also one that is stopped") {
    const Scene scene;
    auto holder = scene.start("trap 'echo asked' TERM; echo armed; sleep 60 & wait; sleep 60",
                              {"--lock", "a"});
    REQUIRE(holder->wait_for_text("armed", 30));
    Outcome o = scene.bash("echo mine", {"--lock", "a", "--on-overlap", "kill"});
    INFO(o.show());
    CHECK(o.out == "mine\n");
    Outcome old = holder->wait();
    CHECK(old.code == 143);
    CHECK(contains(old.out, "asked"));

    holder = scene.start("sleep " + marker(), {"--lock", "a"});
    holder->kill(SIGSTOP);
    o = scene.bash("echo mine", {"--lock", "a", "--on-overlap", "kill"});
    INFO(o.show());
    CHECK(o.out == "mine\n");
    CHECK(holder->wait().signal == SIGKILL);
    CHECK_FALSE(is_alive(marker()));
  }

  TEST_CASE("cron: kill signals nobody whose number a dead holder once had") {
    const Scene scene;
    REQUIRE(scene.bash("true", {"--lock", "a"}).code == 0);
    // Somebody who is no sbx holds the lock, and its file names an innocent process.
    Child innocent({.argv = {"/bin/sleep", "60"}, .as = &subject()});
    const std::string file = scene.state() + "/locks/a";
    scene.dir().write("state/locks/a",
                      R"({"format":1,"held":true,"run":"x","since_ns":1,"process":{"pid":)" +
                          std::to_string(innocent.pid()) +
                          R"(,"start":1,"pid_namespace":1,"boot":"old"}})",
                      0600);
    const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(::flock(fd, LOCK_EX) == 0);
    const Outcome o =
        scene.bash("echo never", {"--lock", "a", "--on-overlap", "kill", "--deadline", "500ms"});
    INFO(o.show());
    CHECK(o.code == 124);
    CHECK(innocent.running());
    ::close(fd);
    CHECK(scene.bash("echo mine", {"--lock", "a"}).out == "mine\n");
    CHECK(innocent.running());
  }

  TEST_CASE("cron: a holder killed with -9 is followed at once, its sandbox dead before") {
    const Scene scene;
    const Args flags{"--lock", "a", "--record"};
    const auto holder = scene.start("(setsid sleep " + marker() + " &); sleep " + marker(), flags);
    CHECK(is_alive(marker()));
    holder->kill(SIGKILL);
    holder->wait();
    Child next(scene.spec(bash_args("echo mine; sleep 60", {"--lock", "a"})));
    REQUIRE(next.wait_for_text("mine", 30));
    CHECK_FALSE(is_alive(marker()));
    CHECK(scene.column("/state") == Strings{"crashed"});
    CHECK(field(scene.call({"runs", "show", "--json", scene.column("/id")[0]}).out, "/cause") ==
          "null");
  }

  TEST_CASE("cron: names of locks are checked, and the other flags with them, before anything") {
    const Scene scene;
    const std::vector<Args> wrong{{"--lock", "../a"},
                                  {"--lock", ""},
                                  {"--lock", std::string(65, 'a')},
                                  {"--on-overlap", "wait"},
                                  {"--lock", "a", "--on-overlap", "queue"},
                                  {"--deadline", "10"},
                                  {"--deadline", "0s"},
                                  {"--retry", "-1"},
                                  {"--retry", "1", "--stdin"},
                                  {"--lock", "a", "--keep", "0"},
                                  {"--keep", "3"},
                                  {"-o", "out/%Q"},
                                  {"-o", "50%"}};
    for (const Args& flags : wrong) {
      const Outcome o = scene.bash("echo never", flags);
      INFO(o.show());
      CHECK(o.code == 2);
      CHECK(o.out == "");
    }
    CHECK(!exists(scene.state() + "/locks"));
  }

  TEST_CASE("cron: the deadline ends the program, and no files of it come out") {
    const Scene scene;
    const Outcome o = scene.bash("echo x > f; sleep 60",
                                 {"--deadline", "700ms", "-o", scene.at("out"), "--json"});
    INFO(o.show());
    CHECK(o.code == 124);
    CHECK(field(o.out, "/cause") == "timeout");
    CHECK(field(o.out, "/error/code") == "deadline");
    CHECK(field(o.out, "/limits_in_force/deadline/value") == "700ms");
    CHECK(lines_of(o.err).size() == 1);
    CHECK(!exists(scene.at("out")));
    // The time limit of the program alone is another thing.
    const Outcome t = scene.bash("echo x > f; sleep 60",
                                 {"--timeout", "700ms", "--deadline", "1m", "-o", scene.at("t")});
    CHECK(t.code == 124);
    CHECK(contains(t.err, "the time limit of 700ms"));
    CHECK(exists(scene.at("t/f")));
  }

  TEST_CASE("cron: the deadline ends collecting, which --timeout does not count") {
    const Scene scene;
    // 15 GiB of holes have to be hashed; that takes longer than a second on any machine.
    const Outcome o = scene.bash("truncate -s 15G big",
                                 {"--deadline", "1s", "--timeout", "60s", "-o", scene.at("out")});
    INFO(o.show());
    CHECK(o.code == 124);
    CHECK(contains(o.err, "the deadline of 1s"));
    CHECK(!exists(scene.at("out")));
    CHECK(names_in(scene.dir().path()) == Strings{"state"});
  }

  TEST_CASE("cron: a dated output is filled in once, and replaced whole by a second run") {
    const Scene scene;
    const Args flags{"-o", "reports/%Y/%%-%j", "--record"};
    REQUIRE(scene.bash("echo 1 > old", flags).code == 0);
    const Strings years = names_in(scene.at("reports"));
    REQUIRE(years.size() == 1);
    const std::string year = scene.at("reports/" + years[0]);
    const Strings days = names_in(year);
    REQUIRE(days.size() == 1);
    CHECK(days[0].starts_with("%-"));
    REQUIRE(scene.bash("echo 2 > new", flags).code == 0);
    CHECK(names_in(year + "/" + days[0]) == Strings{"manifest.json", "new"});
    scene.dir().write("reports/" + years[0] + "/" + days[0] + "/mine", "x");
    REQUIRE(scene.bash("echo 3 > third", flags).code == 0);
    CHECK(names_in(year + "/" + days[0]) == Strings{"manifest.json", "mine", "new", "third"});
  }

  TEST_CASE("cron: --keep keeps the newest records and directories, and touches nothing else") {
    const Scene scene;
    run({.argv = {"/bin/mkdir", "out"}, .cwd = scene.dir().path(), .as = &subject()});
    for (int i = 1; i <= 5; ++i) {
      const Outcome o = scene.bash(
          "echo x > f", {"--lock", "a", "--keep", "2", "-o", "out/" + std::to_string(i)});
      INFO(o.show());
      REQUIRE(o.code == 0);
      CHECK(o.err == "");
    }
    CHECK(names_in(scene.at("out")) == Strings{"4", "5"});
    CHECK(scene.column("/state") == Strings{"finished", "finished"});
    // What the user put beside the files keeps the directory; the record goes, with one warning.
    scene.dir().write("out/4/notes.txt", "mine");
    Outcome o = scene.bash("echo x > f", {"--lock", "a", "--keep", "2", "-o", "out/6"});
    CHECK(lines_of(o.err).size() == 1);
    CHECK(contains(o.err, "notes.txt"));
    CHECK(o.code == 0);
    // Failures do not push out the last good files.
    for (const std::string name : {"out/7", "out/8"}) {
      o = scene.bash("exit 1", {"--lock", "a", "--keep", "2", "-o", name});
      INFO(o.show());
      CHECK(lines_of(o.err).size() == 1);
    }
    CHECK(slurp(scene.at("out/4/notes.txt")) == "mine");
    CHECK(exists(scene.at("out/4/f")));
    CHECK(names_in(scene.at("out")) == Strings{"4", "6", "7", "8"});
    CHECK(scene.column("/exit_code") == Strings{"1", "1", "0"});
  }

  TEST_CASE("cron: --keep lets go the directory of a run whose replacement was killed on the way") {
    const Scene scene;
    run({.argv = {"/bin/mkdir", "out"}, .cwd = scene.dir().path(), .as = &subject()});
    const auto keep = [&](const std::string& name) {
      return scene.bash("echo x > f", {"--lock", "a", "--keep", "1", "-o", "out/" + name});
    };
    REQUIRE(keep("one").code == 0);
    // A later record that announced another directory of this name, and came no further.
    const Strings files = names_in(scene.state() + "/runs");
    REQUIRE(files.size() == 1);
    std::string text = slurp(scene.state() + "/runs/" + files[0]);
    const auto change = [&](const std::string& key, const std::string& value) {
      const size_t at = text.find(key) + key.size();
      REQUIRE(at > key.size());
      text.replace(at, text.find_first_of(",}", at) - at, value);
    };
    change("\"id\":", "\"zzzzzzzzzz\"");
    change("\"inode\":", "4711");
    change("\"boot\":", "\"an earlier one\"");
    change("\"state\":", "\"running\"");
    scene.dir().write("state/runs/00000002-zzzzzzzzzz.json", text, 0600);
    const Outcome o = keep("two");
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.err == "");
    CHECK(names_in(scene.at("out")) == Strings{"two"});
    CHECK(scene.column("/state") == Strings{"finished"});
  }

  TEST_CASE("cron: records say what ran and how it ended, in order, and can be forgotten") {
    const Scene scene;
    CHECK(scene.call({"runs", "ls"}).out == "ID  STATUS  STARTED  TIME  LOCK  COMMAND\n");
    scene.bash("exit 4", {"--record", "-e", "TOKEN=hush-hush"});
    scene.bash("sleep 60", {"--record", "--timeout", "300ms"});
    scene.bash("true", {"--record", "-o", "out"});
    const Strings ids = scene.column("/id");
    REQUIRE(ids.size() == 3);
    CHECK(scene.column("/cause") == Strings{"exited", "timeout", "exited"});
    CHECK(scene.column("/exit_code") == Strings{"0", "124", "4"});
    CHECK(scene.column("/out")[0] == scene.at("out"));
    const std::string table = scene.call({"runs", "ls"}).out;
    CHECK(contains(table, "exit 4"));
    CHECK(contains(table, "timeout"));
    const Outcome shown = scene.call({"runs", "show", ids[2].substr(0, 6), "--json"});
    INFO(shown.show());
    CHECK(field(shown.out, "/id") == ids[2]);
    CHECK(field(shown.out, "/result/exit_code") == "4");
    CHECK(field(shown.out, "/command/1") == "exit 4");
    CHECK(field(shown.out, "/result/stdout") == "");
    CHECK(contains(scene.call({"runs", "show", ids[1]}).out, "the time limit of 300ms"));
    for (const std::string& name : names_in(scene.state() + "/runs")) {
      CHECK(!contains(slurp(scene.state() + "/runs/" + name), "hush-hush"));
    }
    CHECK(scene.call({"runs", "show", "zzzz"}).code == 2);
    CHECK(scene.call({"runs", "rm"}).code == 2);
    CHECK(scene.call({"runs", "rm", ids[0], "zzzz"}).code == 2);
    CHECK(scene.column("/id") == ids);
    CHECK(scene.call({"runs", "rm", "--older", "1d"}).code == 0);
    CHECK(scene.column("/id") == ids);
    CHECK(scene.call({"runs", "rm", ids[0]}).code == 0);
    CHECK(scene.column("/id") == Strings{ids[1], ids[2]});
    CHECK(exists(scene.at("out")));
    const auto running = scene.start("sleep 60", {"--record"});
    CHECK(scene.column("/state")[0] == "running");
    CHECK(scene.call({"runs", "rm", scene.column("/id")[0]}).code == 125);
    CHECK(scene.call({"runs", "rm", "--all"}).code == 0);
    CHECK(scene.column("/state") == Strings{"running"});
  }

  TEST_CASE("cron: users of one lock name do not meet") {
    SKIP_UNLESS("user");
    const Scene scene;
    const auto holder = scene.start("sleep 60", {"--lock", "a"});
    const WorkDir other(other_user());
    Spec spec = sbx_spec(bash_args("echo mine", {"--lock", "a"}));
    spec.env = {"SBX_STATE_DIR=" + other.at("state")};
    spec.as = &other_user();
    CHECK(run(spec).out == "mine\n");
    spec.env = {"SBX_STATE_DIR=" + scene.state()};
    const Outcome o = run(spec);
    CHECK(o.code == 125);  // never somebody else's state
    CHECK(o.out == "");
  }

  TEST_CASE(
      "cron: kill -9 while files are collected leaves no directory, and the next command "
      "removes the rest") {
    const Scene scene;
    for (const std::string target : {"out/new", "out", "out/all.tar"}) {
      CAPTURE(target);
      run({.argv = {"/bin/mkdir", "-p", "out"}, .cwd = scene.dir().path(), .as = &subject()});
      Child child(scene.spec(bash_args("truncate -s 15G big", {"-o", target})));
      for (int i = 0; i < 600 && !exists(scene.state() + "/scratch"); ++i) {
        pause(0.02);
      }
      pause(0.2);
      child.kill(SIGKILL);
      child.wait();
      CHECK(names_in(scene.at("out")).size() == 1);  // the scratch directory
      if (target == "out") {
        const Outcome found = scene.call({"gc", "--dry-run"});
        INFO(found.show());
        CHECK(contains(found.out, "/out/.sbx-out-"));
        CHECK(names_in(scene.at("out")).size() == 1);
        CHECK(scene.call({"gc"}).code == 0);
      }
      CHECK(scene.call({"version"}).code == 0);
      CHECK(names_in(scene.at("out")).empty());
      CHECK(!exists(scene.state() + "/scratch"));
    }
  }

  TEST_CASE("cron: a umask of 0777 does not keep files from coming out") {
    const Scene scene;
    Spec spec = scene.spec(bash_args("mkdir d; echo x > d/f; echo y > g",
                                     {"-o", "new/out", "--lock", "a", "--record"}));
    spec.argv.insert(spec.argv.begin(), {"/bin/sh", "-c", "umask 0777; exec \"$@\"", "sh"});
    const Outcome o = run(spec);
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(slurp(scene.at("new/out/d/f")) == "x\n");
    struct stat st {};
    REQUIRE(::stat(scene.at("new/out").c_str(), &st) == 0);
    CHECK((st.st_mode & 0777U) == 0700);
  }

  TEST_CASE("cron: what may pass is tried again with pauses, a program's own failure is not") {
    const Scene scene;
    Outcome o = scene.bash("exit 5", {"--retry", "3", "--json"});
    CHECK(o.code == 5);
    CHECK(field(o.out, "/attempts") == "1");
    o = scene.call({"run", "--retry", "3", "-p", "no-such-profile", "-c", "1"});
    CHECK(o.code == 2);
    SKIP_UNLESS("root");
    // A full disk that gets room during the second pause.
    const std::string disk = scene.at("disk");
    REQUIRE(::mkdir(disk.c_str(), 0777) == 0);
    REQUIRE(::mount("none", disk.c_str(), "tmpfs", 0, "size=64k,mode=0777") == 0);
    REQUIRE(run({.argv = {"/bin/sh", "-c", "head -c 65536 /dev/zero > filler; chmod 666 filler"},
                 .cwd = disk})
                .code == 0);
    const Args flags{"--retry", "5", "--json", "-o", disk + "/out"};
    o = scene.bash("head -c 20000 /dev/zero > f", {"--retry", "1", "--json", "-o", disk + "/out"});
    CHECK(o.code == 125);
    CHECK(field(o.out, "/retryable") == "true");
    CHECK(field(o.out, "/attempts") == "2");
    CHECK(contains(o.err, "No space left"));
    CHECK(names_in(disk) == Strings{"filler"});
    Child child(scene.spec(bash_args("head -c 20000 /dev/zero > f", flags)));
    pause(1.5);
    CHECK(child.running());
    REQUIRE(::truncate((disk + "/filler").c_str(), 0) == 0);
    o = child.wait();
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(o.err == "");
    CHECK(field(o.out, "/attempts") != "1");
    CHECK(names_in(disk + "/out") == Strings{"f", "manifest.json"});
    // No pause goes beyond the deadline.
    REQUIRE(run({.argv = {"/bin/sh", "-c", "head -c 65536 /dev/zero > filler || :"}, .cwd = disk})
                .code == 0);
    o = scene.bash("head -c 20000 /dev/zero > f",
                   {"--retry", "99", "--deadline", "2s", "--json", "-o", disk + "/more"});
    CHECK(o.code == 125);
    CHECK(::umount2(disk.c_str(), MNT_DETACH) == 0);
  }

  TEST_CASE("cron: on a full state disk a record is refused before the start, forgetting works") {
    SKIP_UNLESS("root");
    const Scene scene;
    const std::string disk = scene.at("disk");
    REQUIRE(::mkdir(disk.c_str(), 0700) == 0);
    REQUIRE(::mount("none", disk.c_str(), "tmpfs", 0, "size=128k,mode=0777") == 0);
    const auto call_there = [&](Args args) {
      Spec spec = scene.spec(std::move(args));
      spec.env.back() = "SBX_STATE_DIR=" + disk + "/state";
      return run(spec);
    };
    REQUIRE(call_there(bash_args("true", {"--record", "--lock", "a"})).code == 0);
    (void)run({.argv = {"/bin/sh", "-c", "head -c 131072 /dev/zero > filler"}, .cwd = disk});
    Outcome o = call_there(bash_args("echo never", {"--record"}));
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(o.out == "");
    CHECK(contains(o.err, "No space left"));
    o = call_there(bash_args("echo lock", {"--lock", "a"}));  // its block is there already
    INFO(o.show());
    CHECK(o.out == "lock\n");
    CHECK(lines_of(call_there({"runs", "ls", "--json"}).out).size() == 1);
    CHECK(call_there({"runs", "rm", "--all"}).code == 0);
    CHECK(call_there({"runs", "ls", "--json"}).out == "");
    // A disk that may only be read.
    REQUIRE(::mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0);
    for (const Args& flags : {Args{"--record"}, Args{"--lock", "a"}}) {
      o = call_there(bash_args("echo never", flags));
      INFO(o.show());
      CHECK(o.code == 125);
      CHECK(contains(o.err, "Read-only file system"));
      CHECK(o.out == "");
    }
    CHECK(::umount2(disk.c_str(), MNT_DETACH) == 0);
  }

  TEST_CASE("cron: Ctrl-Z stops the job with sbx, and fg lets both go on") {
    const Scene scene;
    Child child(
        scene.spec(bash_args("echo ready; while :; do echo tick; sleep 0.05; done", {"--record"})));
    REQUIRE(child.wait_for_text("tick", 30));
    const auto is_stopped = [&] {
      return contains(slurp("/proc/" + std::to_string(child.pid()) + "/stat"), ") T ");
    };
    child.kill(SIGTSTP);
    for (int i = 0; i < 500 && !is_stopped(); ++i) {
      pause(0.02);
    }
    REQUIRE(is_stopped());
    // Nothing new arrives once what was on its way has been read.
    (void)child.wait_for_text("no such text", 1);
    const size_t before = child.out().size();
    (void)child.wait_for_text("no such text", 1);
    CHECK(child.out().size() == before);
    child.kill(SIGCONT);
    for (int i = 0; i < 100 && child.out().size() == before; ++i) {
      (void)child.wait_for_text("no such text", 0.1);
    }
    CHECK(child.out().size() > before);
    child.kill(SIGTERM);
    CHECK(child.wait().code == 143);
  }
}

}  // namespace sbx::test
