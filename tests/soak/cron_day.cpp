// cron_day: a day of cron in two minutes - overlapping starts of one locked job, with each rule.
//
//   cron_day [--starts N] [--seed S]              (SBX_TEST_AS=user: as the unprivileged user)
//
// Some starts are killed with -9, some have a deadline that they miss. Afterwards no two jobs of
// the lock were ever alive together, every directory is complete or absent, --keep holds, and
// nothing is left. Prints one line per wrong thing and a summary; exits with 1 when anything was
// wrong.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#define DOCTEST_CONFIG_IMPLEMENT  // the support library reports through doctest
#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/soak/flags.h"
#include "tests/support/leaks.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

constexpr int kKeep = 5;

/// Python that prints a line for each directory below argv[1] that is not whole.
const char* const kVerify =
    "import hashlib, json, os, sys\n"
    "top = sys.argv[1]\n"
    "for day in sorted(os.listdir(top)):\n"
    "    root = os.path.join(top, day)\n"
    "    if day.startswith('.'): print(day, 'is left'); continue\n"
    "    try:\n"
    "        m = json.load(open(os.path.join(root, 'manifest.json')))\n"
    "        assert m['complete'], 'manifest is not complete'\n"
    "        want = {'manifest.json'}\n"
    "        for a in m['artifacts']:\n"
    "            want.add(a['path'])\n"
    "            d = open(os.path.join(root, a['path']), 'rb').read()\n"
    "            assert len(d) == a['bytes'], a\n"
    "            assert hashlib.sha256(d).hexdigest() == a['sha256'], a\n"
    "        have = set(os.path.relpath(os.path.join(p, f), root)\n"
    "                   for p, _, fs in os.walk(root) for f in fs)\n"
    "        assert have == want, have ^ want\n"
    "    except Exception as e: print(day, 'is half:', repr(e))\n";

struct Start {
  std::unique_ptr<Child> child;
  double kill_at = 0;  // 0: never
  bool has_deadline = false;
};

struct Plan {
  int starts = 60;
  int seed = 1;
};

class Day {
 public:
  Day(std::string rule, const Plan& plan)
      : rule_(std::move(rule)), random_(static_cast<unsigned>(plan.seed)) {
    run({.argv = {"/bin/mkdir", "reports", "shared"}, .cwd = dir_.path(), .as = &subject()});
    for (int i = 0; i < plan.starts; ++i) {
      begin();
      look();
      pause(0.001 * static_cast<double>(random_() % 160));
      look();
    }
    while (!running_.empty()) {
      look();
      pause(0.02);
    }
    finish();
  }

  int wrong() const { return wrong_; }

 private:
  void say(const std::string& what) {
    ++wrong_;
    std::printf("%s: %s\n", rule_.c_str(), what.c_str());
  }

  Spec spec(Args args) const {
    Spec spec = sbx_spec(std::move(args));
    spec.env = environment_of(subject());
    spec.env.push_back("SBX_STATE_DIR=" + dir_.at("state"));
    spec.cwd = dir_.path();
    spec.timeout = 240;
    return spec;
  }

  Args job(const std::string& sleep, const Args& more) const {
    // Whoever runs while another one does cannot take the inner lock, and says so.
    const std::string code =
        "exec 9> /shared/alone; flock -n 9 || echo overlap >> /shared/overlaps; mkdir d; "
        "for i in {1..40}; do echo $i > d/part-$i; done; sleep " +
        sleep + "; echo end > last";
    Args flags{"--lock",
               "day",
               "--on-overlap",
               rule_,
               "--keep",
               std::to_string(kKeep),
               "-o",
               "reports/%Y-%m-%dT%H%M%S",
               "-v",
               dir_.at("shared") + ":/shared:rw"};
    flags.insert(flags.end(), more.begin(), more.end());
    return bash_args(code, flags);
  }

  void begin() {
    Start start;
    const auto fate = static_cast<unsigned>(random_() % 100);
    Args more;
    start.has_deadline = fate >= 20 && fate < 40;
    if (start.has_deadline) more = {"--deadline", std::to_string(50 + random_() % 900) + "ms"};
    const std::string sleep = "0." + std::to_string(random_() % 9);
    start.child = std::make_unique<Child>(spec(job(sleep, more)));
    if (fate < 20) start.kill_at = now() + 0.001 * static_cast<double>(1 + random_() % 1000);
    running_.push_back(std::move(start));
  }

  /// Kills whose time has come, and takes leave of those that ended.
  void look() {
    for (size_t i = 0; i < running_.size();) {
      Start& start = running_[i];
      if (start.kill_at != 0 && now() >= start.kill_at) {
        start.child->kill(SIGKILL);
        start.kill_at = 0;
      }
      if (start.child->running()) {
        ++i;
        continue;
      }
      judge(start);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void judge(Start& start) {
    const Outcome o = start.child->wait();
    std::string how = o.signal != 0 ? "killed" : std::to_string(o.code);
    if (o.code == 0 && !o.err.empty()) say("not quiet: " + o.show());
    if (o.code > 0 && lines_of(o.err).size() != 1) say("not one line: " + o.show());
    const bool is_right = o.signal == SIGKILL || o.code == 0 ||
                          (o.code == 124 && start.has_deadline) ||
                          (o.code == 143 && rule_ == "kill");
    if (!is_right || o.timed_out) say("wrong end: " + o.show());
    ++ends_[how];
  }

  void finish() {
    // One that nobody disturbs comes last: whatever was left is removed by now.
    const Outcome last = run(spec(job("0", {"--on-overlap", "wait"})));
    if (last.code != 0 || !last.err.empty()) say("the last one: " + last.show());
    const std::string half =
        run({.argv = {"/usr/bin/python3", "-c", kVerify, dir_.at("reports")}}).out;
    if (!half.empty()) say(half);
    if (exists(dir_.at("shared/overlaps"))) say("two jobs of the lock were alive together");
    const size_t places = names_in(dir_.at("reports")).size();
    if (places == 0 || places > kKeep) say("directories: " + std::to_string(places));
    std::map<std::string, int> states;
    for (const std::string& line : lines_of(run(spec({"runs", "ls", "--json"})).out)) {
      ++states[field(line, "/state")];
    }
    const int runs = states["finished"] + states["crashed"] + states["running"];
    if (states["running"] != 0) say("a record is left running");
    // Records of directories that stay are kept beyond the newest.
    if (runs < 1 || runs > 2 * kKeep) say("records of runs: " + std::to_string(runs));
    if (states["skipped"] > kKeep) say("records of skips: " + std::to_string(states["skipped"]));
    std::printf("%s:", rule_.c_str());
    for (const auto& [how, count] : ends_) {
      std::printf(" %d x %s,", count, how.c_str());
    }
    std::printf(" %zu directories, %d records\n", places, runs);
  }

  std::string rule_;
  std::mt19937 random_;
  WorkDir dir_;
  std::vector<Start> running_;
  std::map<std::string, int> ends_;
  int wrong_ = 0;
};

int days(const Plan& plan) {
  if (bash("true").code != 0) {  // makes what is made once
    std::printf("cron_day: not even one run works: %s\n", bash("true").show().c_str());
    return 1;
  }
  const LeakCheck check;
  const double begin = now();
  int wrong = 0;
  for (const char* rule : {"skip", "wait", "kill"}) {
    wrong += Day(rule, plan).wrong();
  }
  pause(1.0);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // sandboxes of killed ones end below us
  }
  const std::vector<std::string> left = check.left(5);
  std::printf("3 x %d starts as %s, seed %d, %.0f s: %d wrong, %zu left\n%s",
              plan.starts,
              subject().name.c_str(),
              plan.seed,
              now() - begin,
              wrong,
              left.size(),
              joined(left).c_str());
  return wrong == 0 && left.empty() ? 0 : 1;
}

}  // namespace
}  // namespace sbx::test

int main(int argc, char** argv) {
  sbx::test::Plan plan;
  const bool is_good = sbx::test::read_flags(argc,
                                             argv,
                                             {{"--starts", &plan.starts}, {"--seed", &plan.seed}},
                                             "cron_day [--starts N] [--seed S]");
  return is_good ? sbx::test::days(plan) : 2;
}
