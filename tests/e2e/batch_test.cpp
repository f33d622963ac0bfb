// batch_test: lists of jobs: results, order, limits, and every way in which a batch can be cut
// short and gone on with.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/support/leaks.h"
#include "tests/support/pty.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// {"id":ID,"profile":"bash","code":CODE,MORE}
std::string job(const std::string& id, const std::string& code, const std::string& more = "") {
  return R"({"id":)" + quoted(id) + R"(,"profile":"bash","code":)" + quoted(code) +
         (more.empty() ? "" : "," + more) + "}\n";
}

/// A list of `count` jobs, ids "0"..., all with one code.
std::string jobs(int count, const std::string& code) {
  std::string list;
  for (int i = 0; i < count; ++i) {
    list += job(std::to_string(i), code);
  }
  return list;
}

Spec batch_spec(const std::string& list, Args flags) {
  Args args{"batch", list};
  args.insert(args.end(), flags.begin(), flags.end());
  return sbx_spec(args);
}

/// The whole list over stdin.
Outcome batch(const std::string& list, Args flags = {}) {
  Spec spec = batch_spec("-", std::move(flags));
  spec.input = list;
  return run(spec);
}

/// Result lines by job; a job that is there twice is a failure.
std::map<std::string, std::string> results(const std::string& text) {
  std::map<std::string, std::string> all;
  for (const std::string& line : lines_of(text)) {
    const std::string id = field(line, "/job");
    CHECK_MESSAGE(!id.empty(), line.substr(0, 200));
    CHECK_MESSAGE(all.emplace(id, line).second, "twice: ", id);
  }
  return all;
}

/// How many jobs of the file have this cause and status.
int count_of(const std::string& text, const std::string& cause, const std::string& code) {
  int n = 0;
  for (const auto& [id, line] : results(text)) {
    n += field(line, "/cause") == cause && field(line, "/exit_code") == code ? 1 : 0;
  }
  return n;
}

/// Waits until the file has `lines` lines.
bool has_lines(const std::string& path, std::size_t lines, double seconds = 30) {
  for (const double until = now() + seconds * slowness(); now() < until; pause(0.01)) {
    if (lines_of(slurp(path)).size() >= lines) return true;
  }
  return false;
}

}  // namespace

TEST_SUITE("batch") {
  TEST_CASE("batch: each job has one line with its id, its line and its own result") {
    const Outcome o = batch(job("ok", "echo out; echo err >&2") + "\n" + job("three", "exit 3") +
                                R"({"id":"gone","command":["no-such-program"]})" + "\n" +
                                R"j({"code":"print(6*7)","timeout":"100s"})j" + "\r\n" +
                                job("slow", "sleep 100", R"("timeout":"1s")") +
                                job("in", "cat; echo $X", R"("stdin":"text\n","env":{"X":"y"})") +
                                job("wrong", "true", R"("memory":"12x")") +
                                R"({"id":"last","profile":"bash","file":"/nowhere.sh"})",
                            {"-j", "3"});
    INFO(o.show());
    CHECK(o.code == 1);
    auto all = results(o.out);
    REQUIRE(all.size() == 8);
    CHECK(field(all["ok"], "/stdout") == "out\n");
    CHECK(field(all["ok"], "/stderr") == "err\n");
    CHECK(field(all["ok"], "/line") == "1");
    CHECK(field(all["three"], "/exit_code") == "3");
    CHECK(field(all["three"], "/line") == "3");
    CHECK(field(all["gone"], "/exit_code") == "127");
    CHECK(field(all["5"], "/stdout") == "42\n");
    CHECK(field(all["slow"], "/cause") == "timeout");
    CHECK(field(all["slow"], "/exit_code") == "124");
    CHECK(field(all["in"], "/stdout") == "text\ny\n");
    CHECK(field(all["wrong"], "/cause") == "usage");
    CHECK(field(all["last"], "/cause") == "usage");
    CHECK(contains(o.err, "5 of 8 jobs failed"));
  }

  TEST_CASE("batch: nothing to do is no failure, and neither is -j above the number of jobs") {
    CHECK(batch("").code == 0);
    CHECK(batch("\n\n").code == 0);
    const Outcome o = batch(jobs(3, "true"), {"-j", "64"});
    INFO(o.show());
    CHECK(o.code == 0);
    CHECK(results(o.out).size() == 3);
  }

  TEST_CASE("batch: -j 1 runs the list in its order, -j 64 all of it at a time") {
    const Outcome one = batch(job("a", "sleep 0.3") + job("b", "true") + job("c", "true"), {"-j1"});
    REQUIRE(lines_of(one.out).size() == 3);
    CHECK(field(lines_of(one.out)[0], "/job") == "a");
    CHECK(field(lines_of(one.out)[1], "/job") == "b");
    CHECK(field(lines_of(one.out)[2], "/job") == "c");
    // Each of them waits until all have come: the first that ends needs the last.
    const WorkDir meeting;
    const std::string code =
        "echo > /m/$RANDOM$RANDOM; until [ $(ls /m | wc -l) -ge 12 ]; do "
        "sleep 0.1; done";
    const Outcome all = batch(
        jobs(12, code),
        {"-j", "64", "-v", meeting.path() + ":/m:rw", "--timeout", "60s", "--memory-total", "64G"});
    INFO(all.show());
    CHECK(all.code == 0);
    CHECK(results(all.out).size() == 12);
  }

  TEST_CASE("batch: a mistake anywhere in a file is found before anything is started") {
    const WorkDir dir;
    for (const std::string& bad : {std::string("{\"code\":\"x\",\"memroy\":\"1G\"}\n"),
                                   job("0", "true"),
                                   std::string("{\"code\":\"\xff\"}\n"),
                                   std::string("[1]\n"),
                                   std::string("{\"code\":1}\n")}) {
      const std::string list = dir.write("jobs.jsonl", jobs(3, "true") + "\n" + bad);
      const Outcome o = run(batch_spec(list, {}));
      INFO(o.show());
      CHECK(o.code == 2);
      CHECK(o.out.empty());
      CHECK(contains(o.err, "jobs.jsonl line 5: "));
    }
  }

  TEST_CASE("batch: mistakes in the command are told") {
    const WorkDir dir;
    const std::string list = dir.write("jobs.jsonl", jobs(1, "true"));
    const std::vector<Args> wrong = {{"-j", "0"},
                                     {"-j", "x"},
                                     {"--resume"},
                                     {"--memory-total", "1X"},
                                     {"--results", list},
                                     {"--results", dir.path()}};
    for (const Args& flags : wrong) {
      const Outcome o = run(batch_spec(list, flags));
      INFO(o.show());
      CHECK(o.code == 2);
      CHECK(!o.err.empty());
    }
    CHECK(call({"batch"}).code == 2);
    CHECK(call({"batch", dir.at("missing")}).code == 2);
    CHECK(call({"batch", dir.path()}).code == 2);
    CHECK(slurp(list) == jobs(1, "true"));
  }

  TEST_CASE("batch: jobs from a pipe start as they come, and a mistake lets running ones end") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    Spec spec = batch_spec("-", {"-j", "2"});
    spec.in = ends[0];
    Child child(spec);
    ::close(ends[0]);
    const auto say = [&](const std::string& text) {
      REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    };
    say(job("first", "true"));
    CHECK(child.wait_for_text(R"("job":"first")", 30));
    say(job("second", "sleep 1") + "rubbish\n" + job("third", "true"));
    const Outcome o = child.wait();
    ::close(ends[1]);
    INFO(o.show());
    CHECK(o.code == 2);
    CHECK(contains(o.err, "stdin line 3: "));
    auto all = results(o.out);
    CHECK(all.size() == 2);
    CHECK(field(all["second"], "/cause") == "exited");
  }

  TEST_CASE("batch: jobs whose limits do not fit together run one after the other") {
    const WorkDir shared;
    // Two at a time would meet at the directory.
    const std::string code = "mkdir /s/lock && sleep 0.2 && rmdir /s/lock";
    const Args mount{"-j", "4", "-v", shared.path() + ":/s:rw"};
    const auto with = [&](Args more) {
      more.insert(more.end(), mount.begin(), mount.end());
      return more;
    };
    // The default limit is 512M.
    const Outcome tight = batch(jobs(5, code), with({"--memory-total", "1000M"}));
    INFO(tight.show());
    CHECK(tight.code == 0);
    const Outcome above = batch(jobs(5, code), with({"--memory-total", "100M"}));
    INFO(above.show());
    CHECK(above.code == 0);
    CHECK(contains(above.err, "runs alone"));
    const Outcome unlimited =
        batch(jobs(5, code), with({"--memory-total", "64G", "--set", "limits.memory=unlimited"}));
    INFO(unlimited.show());
    CHECK(unlimited.code == 0);
  }

  TEST_CASE("batch: artifacts go to a directory for each job, or where the job says") {
    const WorkDir dir;
    const Outcome o =
        batch(job("a", "echo 1 > f") + job("b", "echo 2 > f") +
                  job("c", "echo 3 > f", "\"out\":" + quoted(dir.at("own")) + R"(,"require":"f")") +
                  job("d", "true", R"("require":["nothing"])"),
              {"-o", dir.at("deep/outs"), "-j", "2"});
    INFO(o.show());
    CHECK(o.code == 1);
    CHECK(slurp(dir.at("deep/outs/a/f")) == "1\n");
    CHECK(slurp(dir.at("deep/outs/b/f")) == "2\n");
    CHECK(slurp(dir.at("own/f")) == "3\n");
    CHECK(!exists(dir.at("deep/outs/c")));
    CHECK(field(results(o.out)["d"], "/cause") == "policy_denied");
    const Outcome outside = batch(job("../x", "true"), {"-o", dir.at("outs")});
    CHECK(outside.code == 2);
  }

  TEST_CASE("batch: output beyond the limit is counted and not kept") {
    const Outcome o = batch(jobs(3, "head -c 50000000 /dev/zero; head -c 50000000 /dev/zero >&2"),
                            {"-j", "3", "--output-limit", "100K"});
    CHECK(o.code == 0);
    CHECK(o.out.size() < 3U * 3'000'000U);
    for (const auto& [id, line] : results(o.out)) {
      CHECK(field(line, "/truncated") == "true");
      CHECK(field(line, "/stdout_bytes") == "50000000");
      CHECK(field(line, "/stderr_bytes") == "50000000");
    }
  }

  TEST_CASE("batch: big results of several jobs at once arrive whole") {
    const Outcome o = batch(jobs(4, "head -c 8000000 /dev/zero | tr '\\\\0' x"), {"-j", "4"});
    CHECK(o.code == 0);
    const auto all = results(o.out);
    CHECK(all.size() == 4);
    for (const auto& [id, line] : all) {
      CHECK(field(line, "/stdout").size() == 8'000'000U);
    }
  }

  TEST_CASE("batch: --fail-fast starts no more jobs once one failed") {
    const Outcome o =
        batch(job("a", "true") + job("b", "exit 1") + jobs(50, "true"), {"-j1", "--fail-fast"});
    INFO(o.show());
    CHECK(o.code == 1);
    CHECK(results(o.out).size() == 2);
  }

  TEST_CASE("batch: SIGTERM ends running jobs, their results are there, --resume does the rest") {
    const LeakCheck check;
    const WorkDir dir;
    const std::string list = dir.write("jobs.jsonl", jobs(30, "sleep 0.3"));
    const std::string file = dir.at("r.jsonl");
    {
      Child child(batch_spec(list, {"-j", "4", "--results", file}));
      REQUIRE(has_lines(file, 4));
      child.kill(SIGTERM);
      const Outcome o = child.wait();
      INFO(o.show());
      CHECK(o.code == 143);
      CHECK(contains(o.err, "interrupted"));
    }
    const std::string before = slurp(file);
    CHECK(count_of(before, "interrupted", "143") > 0);
    CHECK(results(before).size() < 30);
    CHECK(joined(descendants()) == "");
    const Outcome again = run(batch_spec(list, {"-j", "8", "--results", file, "--resume"}));
    INFO(again.show());
    CHECK(again.code == 0);
    CHECK(count_of(slurp(file), "exited", "0") == 30);
    // Nothing is left to do.
    const std::string done = slurp(file);
    CHECK(run(batch_spec(list, {"--results", file, "--resume"})).code == 0);
    CHECK(slurp(file) == done);
    CHECK(joined(check.left()) == "");
  }

  TEST_CASE("batch: Ctrl-C at a terminal ends it once, with 130") {
    SKIP_UNLESS("pty");
    const WorkDir dir;
    Pty pty(24, 80);
    const std::string list = dir.write("jobs.jsonl", jobs(20, "sleep 5"));
    Spec spec = batch_spec(list, {"-j", "2", "--results", dir.at("r.jsonl")});
    spec.env = environment_of(subject());
    spec.env.emplace_back("TERM=xterm");
    spec.env.emplace_back("NO_COLOR=1");
    spec.pty = &pty;
    Child child(spec);
    CHECK(pty.wait_for("0/20 done, 0 failed, 2 running", 30));
    CHECK(pty.wait_for("[....", 5));
    pty.type("\x03");
    const Outcome o = child.wait();
    pty.watch(0.1);
    INFO(pty.screen());
    CHECK(o.code == 130);
    CHECK(!contains(pty.screen(), "\x1b[2m"));
    CHECK(count_of(slurp(dir.at("r.jsonl")), "interrupted", "130") == 2);
  }

  TEST_CASE("batch: after kill -9 nothing lives, and --resume runs every job once") {
    const LeakCheck check;
    const WorkDir dir;
    std::string text;
    for (int i = 0; i < 40; ++i) {
      text += job(std::to_string(i), i % 5 == 0 ? "exit 3" : "sleep 0.1");
    }
    const std::string list = dir.write("jobs.jsonl", text);
    const std::string file = dir.at("r.jsonl");
    for (const std::size_t lines : {3U, 12U, 25U}) {
      Child child(batch_spec(list, {"-j", "4", "--results", file, "--resume"}));
      REQUIRE(has_lines(file, lines));
      child.kill(SIGKILL);
      CHECK(child.wait().signal == SIGKILL);
      for (const double until = now() + 1.0 * slowness(); now() < until; pause(0.02)) {
        if (descendants().empty()) break;
      }
      // What is adopted by the test is dead; only its zombies may wait for us.
      for (const std::string& line : descendants()) {
        CHECK_MESSAGE(contains(line, ") Z"), line);
      }
      while (::waitpid(-1, nullptr, WNOHANG) > 0) {
      }
    }
    std::ofstream(file, std::ios::app | std::ios::binary) << R"({"job":"39","line":40,"jo)";
    const Outcome o = run(batch_spec(list, {"-j", "4", "--results", file, "--resume"}));
    INFO(o.show());
    CHECK(o.code == 1);
    CHECK(results(slurp(file)).size() == 40);
    CHECK(count_of(slurp(file), "exited", "3") == 8);
    CHECK(count_of(slurp(file), "exited", "0") == 32);
    CHECK(joined(check.left()) == "");
  }

  TEST_CASE("batch: a worker that is killed costs one job, and leaves nothing") {
    const LeakCheck check;
    const WorkDir dir;
    const std::string list =
        dir.write("jobs.jsonl", job("victim", "echo > /s/up; sleep 60") + jobs(10, "true"));
    Child child(batch_spec(list, {"-j", "2", "-v", dir.path() + ":/s:rw"}));
    for (const double until = now() + 30 * slowness(); now() < until && !exists(dir.at("up"));) {
      pause(0.02);
    }
    REQUIRE(child.wait_for_text(R"("job":"9")", 30));
    // The one worker that still has a child of its own is the victim's.
    const Outcome killed =
        run({.argv = {"/bin/sh",
                      "-c",
                      "for w in $(pgrep -P \"$0\"); do pgrep -P $w >/dev/null && "
                      "kill -9 $w; done; true",
                      std::to_string(child.pid())}});
    CHECK(killed.code == 0);
    const Outcome o = child.wait();
    INFO(o.show());
    CHECK(o.code == 1);
    auto all = results(o.out);
    CHECK(all.size() == 11);
    CHECK(field(all["victim"], "/cause") == "sandbox_error");
    CHECK(contains(field(all["victim"], "/error/message"), "signal 9"));
    CHECK(joined(check.left()) == "");
  }

  TEST_CASE("batch: a reader that goes away and a full device end the batch with 125") {
    const LeakCheck check;
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    Spec spec = batch_spec("-", {"-j", "4"});
    spec.input = jobs(8, "sleep 0.2");
    spec.out = full;
    const Outcome o = run(spec);
    ::close(full);
    INFO(o.show());
    CHECK(o.code == 125);
    CHECK(contains(o.err, "No space left"));
    const Outcome device = batch(jobs(8, "sleep 0.2"), {"--results", "/dev/full"});
    CHECK(device.code == 125);
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    ::close(ends[0]);
    spec.out = ends[1];
    const Outcome closed = run(spec);
    ::close(ends[1]);
    INFO(closed.show());
    CHECK(closed.code == 125);
    CHECK(joined(check.left()) == "");
  }

  TEST_CASE("batch: a reader that does not read stops the batch and not Ctrl-C") {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    Spec spec = batch_spec("-", {"-j", "2"});
    spec.input = jobs(50, "head -c 20000 /dev/zero | tr '\\\\0' x");
    spec.out = ends[1];
    Child child(spec);
    ::close(ends[1]);
    pause(2 * slowness());
    CHECK(child.running());
    child.kill(SIGTERM);
    child.kill(SIGTERM);
    pause(0.2);
    child.kill(SIGTERM);
    const Outcome o = child.wait();
    ::close(ends[0]);
    INFO(o.show());
    CHECK(o.code == 143);
    CHECK(!o.timed_out);
  }

  TEST_CASE("batch: a full disk leaves whole lines, and --resume goes on once there is room") {
    if (!self().uid) {
      const WorkDir dir;
      const std::string disk = dir.at("disk");
      REQUIRE(run({.argv = {"/bin/mkdir", disk}}).code == 0);
      REQUIRE(::mount("sbx-test", disk.c_str(), "tmpfs", 0, "size=16k,mode=0777") == 0);
      const std::string list = dir.write("jobs.jsonl", jobs(40, "true"));
      const std::string file = disk + "/r.jsonl";
      const Outcome o = run(batch_spec(list, {"-j", "4", "--results", file}));
      const std::string first = slurp(file);
      const int grown = ::mount("", disk.c_str(), nullptr, MS_REMOUNT, "size=1m");
      const Outcome again = run(batch_spec(list, {"-j", "4", "--results", file, "--resume"}));
      const std::string second = slurp(file);
      ::umount2(disk.c_str(), MNT_DETACH);
      INFO(o.show());
      CHECK(o.code == 125);
      CHECK(contains(o.err, "No space left"));
      CHECK((first.empty() || first.back() == '\n'));
      CHECK(results(first).size() < 40);
      CHECK(grown == 0);
      CHECK(again.code == 0);
      CHECK(results(second).size() == 40);
    }
  }

  TEST_CASE("batch: one file of results has one batch at a time, and one list") {
    const WorkDir dir;
    const std::string list = dir.write("jobs.jsonl", jobs(2, "sleep 30"));
    const std::string file = dir.at("r.jsonl");
    {
      Child child(batch_spec(list, {"--results", file}));
      for (const double until = now() + 30 * slowness(); now() < until && !exists(file);) {
        pause(0.01);
      }
      const Outcome o = run(batch_spec(list, {"--results", file, "--resume"}));
      INFO(o.show());
      CHECK(o.code == 2);
      CHECK(contains(o.err, "in use by another batch"));
      child.kill(SIGTERM);
      CHECK(child.wait().code == 143);
    }
    dir.write("jobs.jsonl", jobs(2, "true"));
    REQUIRE(run(batch_spec(list, {"--results", file, "--resume"})).code == 0);
    const Outcome used = run(batch_spec(list, {"--results", file}));
    CHECK(used.code == 2);
    CHECK(contains(used.err, "--resume"));
    dir.write("jobs.jsonl", jobs(2, "echo changed"));
    const Outcome changed = run(batch_spec(list, {"--results", file, "--resume"}));
    INFO(changed.show());
    CHECK(changed.code == 2);
    CHECK(contains(changed.err, "is another one now"));
  }
}

}  // namespace sbx::test
