// session_test: the life of a session: names, files over a stop, labels, states, checkpoints,
// removal.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/e2e/sessions.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// Everything below the state directory, but for what is made once.
std::string tree_of(const std::string& dir) {
  return run({.argv = {"/usr/bin/find", dir, "-printf", "%P %y %s %m %U\n"}}).out;
}

std::string output_of(const Sessions& sessions, const std::string& name, std::string_view code) {
  const Outcome o = sessions.exec(name, code);
  INFO(o.show());
  CHECK(o.code == 0);
  return o.out;
}

}  // namespace

TEST_SUITE("session") {
  TEST_CASE("session: files are kept over three stops, throw-away places and programs are not") {
    const Sessions sessions;
    sessions.start("s", {"--label", "team=a", "--label", "run/7=x y"});
    output_of(sessions, "s", "echo kept | tee /work/f ~/f >/tmp/f; (setsid sleep 1000 &)");
    for (int i = 0; i < 3; ++i) {
      CHECK(sessions.call({"stop", "s"}).code == 0);
      CHECK(sessions.state("s") == "stopped");
      const Outcome again = sessions.call({"start", "s"});
      INFO(again.show());
      CHECK(again.code == 0);
      CHECK(again.out == "s\n");
      CHECK(output_of(sessions, "s", "cat /work/f ~/f; ls /tmp; pgrep sleep; true") ==
            "kept\nkept\n");
    }
    CHECK(sessions.show("s", "/labels/team") == "a");
    CHECK(sessions.show("s", "/labels/run~17") == "x y");
    CHECK(sessions.call({"ls", "-q", "--label", "team=a"}).out == "s\n");
    CHECK(sessions.call({"ls", "-q", "--label", "team=b"}).out.empty());
    CHECK(sessions.call({"rm", "-f", "s"}).code == 0);
    CHECK(sessions.call({"show", "s"}).code != 0);
    sessions.start("s");
    CHECK(output_of(sessions, "s", "ls /work") == "");
  }

  TEST_CASE("session: of 20 starts with one name one wins, the others say that it exists") {
    const Sessions sessions;
    std::vector<std::unique_ptr<Child>> all;
    for (int i = 0; i < 20; ++i) {
      all.push_back(std::make_unique<Child>(
          sessions.spec({"session", "start", "one", "-p", "bash", "--label", "n=1"})));
    }
    int won = 0;
    for (const auto& child : all) {
      const Outcome o = child->wait();
      INFO(o.show());
      won += o.code == 0 ? 1 : 0;
      if (o.code != 0) CHECK(contains(o.err, "exists"));
    }
    CHECK(won == 1);
    CHECK(sessions.state("one") == "running");
    CHECK(sessions.exec("one", "exit 3").code == 3);
  }

  TEST_CASE("session: 20 unnamed starts at once get 20 names") {
    const Sessions sessions;
    std::vector<std::unique_ptr<Child>> all;
    for (int i = 0; i < 20; ++i) {
      all.push_back(std::make_unique<Child>(sessions.spec({"session", "start", "-p", "bash"})));
    }
    std::set<std::string> names;
    for (const auto& child : all) {
      const Outcome o = child->wait();
      INFO(o.show());
      CHECK(o.code == 0);
      names.insert(trimmed(o.out));
    }
    CHECK(names.size() == 20);
    CHECK(lines_of(sessions.call({"ls", "-q"}).out).size() == 20);
  }

  TEST_CASE("session: odd names are refused, the longest, and names of verbs, are names") {
    const Sessions sessions;
    for (const std::string name : {"", ".", "..", "a/b", "-x", "a b", "a\nb", ".a", "\xff", "ä"}) {
      INFO(name);
      CHECK(sessions.call({"start", "-p", "bash", "--", name}).code == 2);
    }
    CHECK(sessions.call({"start", "-p", "bash", std::string(65, 'a')}).code == 2);
    CHECK(names_in(sessions.state_dir() + "/sessions").empty());
    for (const std::string& name : std::vector<std::string>{std::string(64, 'a'), "run", "logs"}) {
      INFO(name);
      sessions.start(name);
      const Outcome o =
          sessions.call({"exec", name, "--", "printf", "%s|", "-h", "--version", "--"});
      INFO(o.show());
      CHECK(o.out == "-h|--version|--|");
      CHECK(sessions.call({"logs", name}).out == "-h|--version|--|");
    }
    CHECK(lines_of(sessions.call({"ls", "-q"}).out).size() == 3);
  }

  TEST_CASE("session: all after -- is the program's, also words of sbx itself") {
    const Sessions sessions;
    sessions.start("s");
    const Outcome o = sessions.call({"exec", "s", "--", "sbx", "-h", "--version", "--"});
    INFO(o.show());
    CHECK(o.code == 127);
    CHECK(contains(o.err, "sbx"));
    const std::string odd = "a'\"; $(touch /tmp/sbx-marker) `x`\n\xff\\";
    const Outcome printed = sessions.call({"exec", "s", "--", "printf", "%s", odd});
    CHECK(printed.out == odd);
    CHECK(!exists("/tmp/sbx-marker"));
  }

  TEST_CASE("session: a state directory of 150 bytes with a name of 64 works") {
    const Sessions sessions(std::string(70, 'd') + "/" + std::string(79, 'e'));
    const std::string name(64, 'n');
    sessions.start(name);
    CHECK(sessions.exec(name, "echo in >f; exit 5").code == 5);
    CHECK(sessions.call({"stop", name}).code == 0);
    CHECK(sessions.exec(name, "cat f").out == "in\n");
    CHECK(sessions.call({"checkpoint", name, std::string(64, 't')}).code == 0);
    CHECK(sessions.call({"pause", name}).code == 0);
  }

  TEST_CASE("session: checkpoints bring files back, sixteen forks are independent") {
    const Sessions sessions;
    sessions.start("s");
    output_of(sessions, "s", "mkdir d; echo one >d/f; echo gone >g");
    CHECK(sessions.call({"checkpoint", "s", "alive"}).out == "alive\n");
    output_of(sessions, "s", "echo two >d/f; rm g");
    CHECK(sessions.call({"stop", "s"}).code == 0);
    CHECK(sessions.call({"checkpoint", "s", "second"}).code == 0);
    output_of(sessions, "s", "rm -r d; mkdir d; echo broken >d/x");
    Outcome o = sessions.call({"restore", "s", "alive"});
    INFO(o.show());
    CHECK(o.code == 0);
    const std::string automatic = trimmed(o.out);
    CHECK(output_of(sessions, "s", "cat d/f g; ls d") == "one\ngone\nf\n");
    CHECK(sessions.call({"restore", "s", "second"}).code == 0);
    CHECK(output_of(sessions, "s", "cat d/f; ls") == "two\nd\n");
    CHECK(sessions.call({"restore", "s", automatic}).code == 0);
    CHECK(output_of(sessions, "s", "ls d") == "x\n");
    o = sessions.call({"fork", "s", "f", "--from", "second", "--count", "16"});
    INFO(o.show());
    REQUIRE(o.code == 0);
    REQUIRE(lines_of(o.out).size() == 16);
    for (const std::string& name : lines_of(o.out)) {
      CHECK(output_of(sessions, name, "cat d/f; echo " + name + " >d/f; cat d/f") ==
            "two\n" + name + "\n");
    }
    for (int i = 1; i <= 16; ++i) {
      const std::string name = "f-" + std::to_string(i);
      CHECK(output_of(sessions, name, "cat d/f") == name + "\n");
      CHECK(sessions.call({"stop", name, "--time", "0s"}).code == 0);
    }
    CHECK(sessions.call({"rm", "-f", "s"}).code == 0);
    CHECK(output_of(sessions, "f-16", "cat d/f") == "f-16\n");
  }

  TEST_CASE(
      "session: when all are removed the state directory is as before, and gc finds nothing") {
    const Sessions sessions;
    sessions.start("first");
    CHECK(sessions.call({"rm", "-f", "first"}).code == 0);
    const std::string before = tree_of(sessions.state_dir());
    const LeakCheck check;
    sessions.start("s");
    output_of(
        sessions, "s", "echo x >f; mkdir -m 0 closed; echo x >g; chmod 0 g; ln -s / up; mkfifo p");
    CHECK(sessions.call({"checkpoint", "s"}).code == 0);
    CHECK(sessions.call({"fork", "s", "t", "--count", "3"}).code == 0);
    CHECK(sessions.exec("t-2", "ls; echo more >>f").code == 0);
    CHECK(sessions.call({"restore", "s", "c1"}).code == 0);
    for (const std::string& name : lines_of(sessions.call({"ls", "-q"}).out)) {
      const Outcome o = sessions.call({"rm", "-f", name});
      INFO(o.show());
      CHECK(o.code == 0);
    }
    CHECK(tree_of(sessions.state_dir()) == before);
    CHECK(sessions.sbx({"gc"}).out == "nothing is left\n");
    CHECK(joined(check.left_after_kill()) == "");
  }

  TEST_CASE("session: a start that fails leaves nothing, and its name is free") {
    const Sessions sessions;
    const Outcome o = sessions.call({"start", "s", "-p", "bash", "-v", "/no/such:/work/x"});
    INFO(o.show());
    CHECK(o.code != 0);
    CHECK(contains(o.err, "/no/such"));
    CHECK(names_in(sessions.state_dir() + "/sessions").empty());
    sessions.start("s");
    CHECK(sessions.exec("s", "true").code == 0);
  }

  TEST_CASE("session: a limit of the disk is refused with the way out, none is no limit") {
    const Sessions sessions;
    const Outcome refused = sessions.call({"start", "s", "--disk", "64M"});
    INFO(refused.show());
    CHECK(refused.code == 125);
    CHECK(contains(refused.err, "limits.best_effort=true"));
    CHECK(names_in(sessions.state_dir() + "/sessions").empty());
    sessions.start("s", {"--set", "limits.disk=unlimited"});
    CHECK(sessions.exec("s", "true").code == 0);
  }

  TEST_CASE("session: the services of its profile run again after each start") {
    const Sessions sessions;
    const std::string profile =
        sessions.dir().write("p.yaml",
                             "extends: bash\nlimits: {timeout: unlimited}\nservices:\n"
                             "  one: {command: [bash, -c, 'echo up >>/work/log; sleep 1000']}\n"
                             "  two: {command: [bash, -c, 'echo x >>/work/two; exit 1'], "
                             "restart: on-failure}\n");
    Outcome o = sessions.call({"start", "s", "-p", profile});
    INFO(o.show());
    REQUIRE(o.code == 0);
    CHECK(sessions.comes("s", "[ $(wc -l <log) = 1 ] && [ $(wc -l <two) -ge 2 ]"));
    CHECK(sessions.call({"stop", "s"}).code == 0);
    CHECK(sessions.call({"start", "s"}).code == 0);
    CHECK(sessions.comes("s", "[ $(wc -l <log) = 2 ]"));
  }

  TEST_CASE("session: what nobody uses is paused, then removed; touch and programs keep it") {
    const Sessions sessions;
    sessions.start("p", {"--set", "session.idle_pause=1s"});
    const std::string id = sessions.detached("p", "sleep 2; echo done");
    CHECK(sessions.call({"wait", "p", id}).code == 0);
    CHECK(comes_true([&] { return sessions.state("p") == "paused"; }));
    CHECK(sessions.exec("p", "echo on").out == "on\n");
    sessions.start("t", {"--set", "session.ttl=1s"});
    CHECK(comes_true([&] { return sessions.call({"show", "t"}).code != 0; }));
    sessions.start("u", {"--set", "session.ttl=1s"});
    CHECK(sessions.call({"stop", "u"}).code == 0);
    CHECK(comes_true([&] {
      sessions.sbx({"gc"});
      return sessions.call({"show", "u"}).code != 0;
    }));
  }
}

}  // namespace sbx::test
