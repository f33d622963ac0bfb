// session_storm: random operations on sessions with kill -9 of any sbx process during or after
// each; what was written and synced has to be there, every name usable, nothing left at the end.
//
//   session_storm [--ops N] [--seed S] [--full-disk 1]   the storm
//   session_storm --execs N                              programs one after another in one session
//   session_storm --wide N                               32 at once with N MB of output each
//                                                        (SBX_TEST_AS=user: as that user)
//
// Prints a line per wrong end and a summary; exits with 1 when anything was wrong or left.
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#define DOCTEST_CONFIG_IMPLEMENT  // the support library reports through doctest
#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/e2e/sessions.h"
#include "tests/soak/flags.h"
#include "tests/soak/session_execs.h"
#include "tests/soak/session_files.h"
#include "tests/support/leaks.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

struct Plan {
  int ops = 300;
  int seed = 1;
  int full_disk = 0;
  int execs = 0;
  int wide = 0;
};

/// What has to be true of a session.
struct Known {
  Files files;
  Files maybe;  ///< their writer was killed before it said so
  std::map<std::string, Known> checkpoints;
};

constexpr int kCannot = 125;

enum class Victim { kNobody, kCommand, kSupervisor, kInit };

class Storm {
 public:
  explicit Storm(const Plan& plan);
  ~Storm() {
    if (plan_.full_disk != 0) ::umount2(mounted_.c_str(), MNT_DETACH);
  }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;

  int run();

 private:
  using Operation = void (Storm::*)(const std::string&);

  Outcome call(Args args);
  void start(const std::string& name);
  void write(const std::string& name);
  void write_detached(const std::string& name);
  void copy_in(const std::string& name);
  void pause_it(const std::string& name);
  void resume(const std::string& name);
  void stop(const std::string& name);
  void checkpoint(const std::string& name);
  void restore(const std::string& name);
  void fork_it(const std::string& name);
  void remove(const std::string& name);

  Files files_of(const std::string& name);
  void verify(const std::string& name);
  void look_who_exists(const std::string& name, const Known& when_there);
  std::size_t automatic_ones(const std::string& name);
  void fill(bool is_full);
  void wrong(const std::string& text);
  int draw(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }
  int finish(const LeakCheck& check, double seconds);

  Plan plan_;
  std::mt19937 random_;
  Sessions sessions_;
  std::string mounted_;
  std::map<std::string, Known> known_;
  std::map<std::string, int> counts_;
  int next_file_ = 0;
  int next_name_ = 0;
  int wrong_ = 0;
  bool is_full_ = false;
  Victim victim_ = Victim::kNobody;
  std::string victim_of_;
  bool was_killed_ = false;
  std::string what_;
};

Storm::Storm(const Plan& plan) : plan_(plan), random_(static_cast<unsigned>(plan.seed)) {
  if (plan_.full_disk == 0) return;
  mounted_ = sessions_.state_dir();
  const std::string options = "mode=700,size=24m,uid=" + std::to_string(subject().uid) +
                              ",gid=" + std::to_string(subject().gid);
  if (::mount("tmpfs", mounted_.c_str(), "tmpfs", 0, options.c_str()) != 0) {
    std::printf("SKIP: needs to mount a tmpfs\n");
    std::exit(0);
  }
}

void Storm::wrong(const std::string& text) {
  ++wrong_;
  std::printf("%s: %s\n", what_.c_str(), text.c_str());
}

void Storm::fill(bool is_full) {
  const std::string path = mounted_ + "/filler";
  is_full_ = is_full;
  is_full ? fill_disk(path) : static_cast<void>(::unlink(path.c_str()));
}

/// A command in which somebody is killed at a random moment. was_killed_: its outcome says nothing.
Outcome Storm::call(Args args) {
  was_killed_ = false;
  pid_t pid = 0;
  if (victim_ == Victim::kSupervisor) pid = sessions_.supervisor(victim_of_);
  if (victim_ == Victim::kInit) pid = sessions_.init(victim_of_);
  Child child(sessions_.spec(std::move(args)));
  if (victim_ != Victim::kNobody) {
    constexpr int kLongest = 120;
    pause(draw(kLongest) * 0.001 * (draw(3) == 0 ? 0.1 : 1));
    if (victim_ == Victim::kCommand) {
      was_killed_ = child.running();
      child.kill(SIGKILL);
    } else if (pid > 1) {
      ::kill(pid, SIGKILL);
      was_killed_ = true;
    }
  }
  const Outcome o = child.wait();
  if (o.timed_out) wrong("hangs: " + o.show());
  if (o.code != 0 && !was_killed_ && !is_full_ && victim_ == Victim::kNobody) {
    wrong("failed: " + o.show());
  }
  return o;
}

/// Whether the session is there after a command about it that may have been cut short.
void Storm::look_who_exists(const std::string& name, const Known& when_there) {
  const bool is_there = sessions_.call({"show", name}).code == 0;
  if (is_there && !known_.contains(name)) known_[name] = when_there;
  if (!is_there) known_.erase(name);
}

void Storm::start(const std::string& /*unused*/) {
  const std::string name = "n" + std::to_string(++next_name_);
  call({"session", "start", name, "-p", "bash", "-q", "--set", "limits.timeout=unlimited"});
  look_who_exists(name, {});
}

void Storm::write(const std::string& name) {
  const int number = ++next_file_;
  const std::string file = "f" + std::to_string(number);
  const std::string code =
      "cat >.part && sync .part && mv .part " + file + " && sync . && echo done";
  const std::string text = content_of(number);
  const Outcome o = call(Sessions::exec_args(name, "printf %s '" + text + "' | { " + code + "; }"));
  (o.out == "done\n" ? known_[name].files : known_[name].maybe).insert(number);
}

void Storm::write_detached(const std::string& name) {
  const int number = ++next_file_;
  const std::string file = "f" + std::to_string(number);
  call(Sessions::exec_args(name,
                           "printf %s '" + content_of(number) + "' >.d" + file + " && mv .d" +
                               file + " " + file + "; sleep 1000 & sleep 1000",
                           {"-d"}));
  known_[name].maybe.insert(number);
}

void Storm::copy_in(const std::string& name) {
  const int number = ++next_file_;
  const std::string source = sessions_.dir().write("source", content_of(number));
  if (call({"session", "cp", "-q", source, name + ":.copied"}).code != 0) return;
  known_[name].maybe.insert(number);
  const std::string file = "f" + std::to_string(number);
  const Outcome o = sessions_.exec(name, "mv .copied " + file + " && sync " + file);
  if (o.code == 0) known_[name].files.insert(number);
}

void Storm::pause_it(const std::string& name) {
  if (sessions_.state(name) == "running") call({"session", "pause", name});
}

void Storm::resume(const std::string& name) {
  const std::string state = sessions_.state(name);
  if (state == "running" || state == "paused") call({"session", "resume", name});
}

void Storm::stop(const std::string& name) {
  call({"session", "stop", name, "--time", "100ms"});
}

void Storm::checkpoint(const std::string& name) {
  const std::string tag = "t" + std::to_string(next_file_) + "-" + std::to_string(draw(1000));
  Known& known = known_[name];
  Known then{known.files, known.maybe, {}};
  const Outcome o = call({"session", "checkpoint", name, tag});
  const bool is_there = contains(sessions_.call({"checkpoints", name, "-q"}).out, tag + "\n");
  if (o.code == 0 && !is_there) wrong("checkpoint " + tag + " is not there");
  if (is_there) known.checkpoints[tag] = then;
}

std::size_t Storm::automatic_ones(const std::string& name) {
  std::size_t count = 0;
  for (const std::string& tag : lines_of(sessions_.call({"checkpoints", name, "-q"}).out)) {
    if (tag.rfind("auto", 0) == 0) ++count;
  }
  return count;
}

void Storm::restore(const std::string& name) {
  Known& known = known_[name];
  if (known.checkpoints.empty()) return checkpoint(name);
  auto at = known.checkpoints.begin();
  std::advance(at, draw(static_cast<int>(known.checkpoints.size())));
  const std::size_t before = automatic_ones(name);
  const Known then{known.files, known.maybe, {}};
  const Outcome o = call({"session", "restore", name, at->first});
  const bool is_done = automatic_ones(name) > before;
  if (o.code == 0 && !is_done) wrong("restore kept nothing");
  if (!is_done) return;
  known.files = at->second.files;
  known.maybe = at->second.maybe;
  known.checkpoints["auto" + std::to_string(before + 1)] = then;
}

void Storm::fork_it(const std::string& name) {
  const std::string prefix = "k" + std::to_string(++next_name_);
  const Known then{known_[name].files, known_[name].maybe, {}};
  call({"session", "fork", name, prefix, "--count", "2"});
  look_who_exists(prefix + "-1", then);
  look_who_exists(prefix + "-2", then);
}

void Storm::remove(const std::string& name) {
  const Known then = known_[name];
  const Outcome o = call({"session", "rm", "-f", name});
  look_who_exists(name, then);
  if (o.code == 0 && known_.contains(name)) wrong(name + " is there after rm");
  if (is_full_ && !was_killed_ && o.code != 0) wrong("rm on a full disk: " + o.show());
}

/// Numbers of the whole files in a session; says which are not whole.
Files Storm::files_of(const std::string& name) {
  Outcome o = sessions_.exec(name, kPrintFiles);
  // Whoever was killed a moment ago may take along what is asked of the session while it ends.
  if (o.code == kCannot && was_killed_) o = sessions_.exec(name, kPrintFiles);
  if (o.code > 1 || o.code < 0) wrong(name + " cannot be used: " + o.show());
  Files broken;
  Files found = whole_files(o.out, broken);
  for (const int number : broken) {
    wrong(name + ": f" + std::to_string(number) + " is not whole");
  }
  return found;
}

void Storm::verify(const std::string& name) {
  const Known& known = known_[name];
  const Files found = files_of(name);
  for (const int number : known.files) {
    if (!found.contains(number)) wrong(name + ": f" + std::to_string(number) + " is lost");
  }
  for (const int number : found) {
    if (!known.files.contains(number) && !known.maybe.contains(number)) {
      wrong(name + ": f" + std::to_string(number) + " should not be there");
    }
  }
}

int Storm::run() {
  const std::vector<std::pair<std::string, Operation>> all = {{"start", &Storm::start},
                                                              {"write", &Storm::write},
                                                              {"write", &Storm::write},
                                                              {"write -d", &Storm::write_detached},
                                                              {"pause", &Storm::pause_it},
                                                              {"resume", &Storm::resume},
                                                              {"stop", &Storm::stop},
                                                              {"checkpoint", &Storm::checkpoint},
                                                              {"restore", &Storm::restore},
                                                              {"fork", &Storm::fork_it},
                                                              {"cp", &Storm::copy_in},
                                                              {"rm", &Storm::remove}};
  const double begin = now();
  sessions_.sbx({"gc"});
  const LeakCheck check;
  constexpr std::size_t kMostSessions = 8;
  constexpr int kFullFor = 10;
  for (int i = 0; i < plan_.ops; ++i) {
    if (plan_.full_disk != 0 && i % kFullFor == 0) fill((i / kFullFor) % 2 == 1);
    auto [word, operation] = all[static_cast<std::size_t>(draw(static_cast<int>(all.size())))];
    if (known_.empty()) std::tie(word, operation) = all[0];
    if (known_.size() > kMostSessions) std::tie(word, operation) = all.back();
    std::string name;
    if (!known_.empty()) {
      auto at = known_.begin();
      std::advance(at, draw(static_cast<int>(known_.size())));
      name = at->first;
    }
    victim_ = static_cast<Victim>(draw(4));
    victim_of_ = name;
    constexpr const char* kNames[] = {"nobody", "the command", "its supervisor", "its PID 1"};
    const std::string victim = kNames[static_cast<int>(victim_)];
    what_ = "operation " + std::to_string(i) + " (" + word + " " + name + ", killed: " + victim +
            (is_full_ ? ", full disk)" : ")");
    ++counts_[word];
    (this->*operation)(name);
    victim_ = Victim::kNobody;
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (!is_full_ && known_.contains(name)) verify(name);
    if (draw(kFullFor) == 0 && sessions_.sbx({"gc"}).code != 0) wrong("gc failed");
  }
  return finish(check, now() - begin);
}

int Storm::finish(const LeakCheck& check, double seconds) {
  what_ = "at the end";
  if (plan_.full_disk != 0) fill(false);
  for (const auto& [name, known] : known_) {
    verify(name);
    for (const auto& [tag, then] : known.checkpoints) {
      if (draw(3) == 0 && sessions_.call({"restore", name, tag}).code == 0) {
        known_[name].files = then.files;
        known_[name].maybe = then.maybe;
        verify(name);
      }
    }
  }
  if (plan_.full_disk != 0) fill(true);
  for (const std::string& name : lines_of(sessions_.call({"ls", "-q"}).out)) {
    const Outcome o = sessions_.call({"rm", "-f", name});
    if (o.code != 0) wrong("rm: " + o.show());
  }
  sessions_.sbx({"gc"});
  if (const Outcome o = sessions_.sbx({"gc"}); o.out != "nothing is left\n") wrong(o.show());
  for (const std::string below : {"/sessions", "/layers"}) {
    for (const std::string& entry : names_in(sessions_.state_dir() + below)) {
      if (entry != "lock") wrong("left: " + below + "/" + entry);
    }
  }
  const std::vector<std::string> left = check.left_after_kill(5);
  std::printf("%d operations as %s, seed %d%s, %.0f s:",
              plan_.ops,
              subject().name.c_str(),
              plan_.seed,
              plan_.full_disk != 0 ? ", full disk" : "",
              seconds);
  for (const auto& [name, count] : counts_) {
    std::printf(" %d %s,", count, name.c_str());
  }
  std::printf(
      " %d files, %d wrong, %zu left\n%s", next_file_, wrong_, left.size(), joined(left).c_str());
  return wrong_ == 0 && left.empty() ? 0 : 1;
}

}  // namespace
}  // namespace sbx::test

int main(int argc, char** argv) {
  using namespace sbx::test;
  Plan plan;
  const bool is_good = read_flags(argc,
                                  argv,
                                  {{"--ops", &plan.ops},
                                   {"--seed", &plan.seed},
                                   {"--full-disk", &plan.full_disk},
                                   {"--execs", &plan.execs},
                                   {"--wide", &plan.wide}},
                                  "session_storm [--ops N] [--seed S] [--full-disk 0|1] [--execs N]"
                                  " [--wide MB]");
  if (!is_good) return 2;
  if (plan.execs > 0) return run_in_a_row(plan.execs);
  if (plan.wide > 0) return run_at_once(plan.wide);
  return Storm(plan).run();
}
