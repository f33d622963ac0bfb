// storm: kill -9 of sbx at random moments of a run's life; what lives a second later, and what the
// next sbx command leaves.
//
//   storm [--kills N] [--seed S] [--full-disk 1]    (SBX_TEST_AS=user: as the unprivileged user)
//
// Prints a line per wrong end (number, kind, moment) and a summary; exits with 1 when anything was
// wrong or left.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

/// What is killed.
struct Kind {
  std::string name;
  Args args;
  double life = 0;  ///< seconds in which the moment is drawn; 0: measured
};

std::vector<Kind> kinds(const WorkDir& dir) {
  const std::string files = "for i in 1 2 3 4 5 6 7 8 9; do head -c 30000 /dev/zero > f$i; done";
  const std::string family =
      "(setsid sleep 99 &); (setsid bash -c 'sleep 99 & sleep 99' &); sleep 99";
  // Stopped ones do not see a signal or the end of a pipe by themselves.
  const std::string stopped = "sleep 99 & kill -STOP $!; kill -STOP $$";
  constexpr double kWhile = 0.06;
  return {{"quick", bash_args("echo ok")},
          {"new directory", bash_args(files, {"-o", dir.at("new")})},
          {"old directory", bash_args(files, {"-o", dir.at("old")})},
          {"archive", bash_args(files, {"-o", dir.at("archive.tar.gz")})},
          {"input", bash_args("cat input", {"--json", "-i", dir.at("input")})},
          {"python", python_args("print(1)")},
          {"family", bash_args(family), kWhile},
          {"stopped", bash_args(stopped), kWhile},
          {"flood", bash_args("yes"), kWhile},
          {"no such program", command_args({"no-such-program"})},
          {"doctor", {"doctor"}},
          {"gc", {"gc"}}};
}

/// Everything that may be left in `dir` of a run that put its artifacts there.
std::vector<std::string> left_in(const WorkDir& dir) {
  std::vector<std::string> out;
  for (const std::string& below : {std::string(), std::string("/old")}) {
    for (const std::string& name : names_in(dir.path() + below)) {
      if (name.rfind(".sbx", 0) == 0) out.push_back("file " + dir.path() + below + "/" + name);
    }
  }
  return out;
}

/// Artifacts are complete or not there.
std::vector<std::string> half_in(const WorkDir& dir) {
  std::vector<std::string> out;
  if (exists(dir.at("new"))) {
    const std::string manifest = slurp(dir.at("new/manifest.json"));
    for (const std::string& name : names_in(dir.at("new"))) {
      if (name == "manifest.json" || contains(manifest, '"' + name + '"')) continue;
      out.push_back("half a directory: " + name + " is not in its manifest");
    }
    if (manifest.empty()) out.emplace_back("half a directory: it has no manifest");
  }
  if (exists(dir.at("archive.tar.gz"))) {
    const Outcome o = test::run({.argv = {"/bin/tar", "-tzf", dir.at("archive.tar.gz")}});
    const bool is_whole = o.code == 0 && contains(o.out, "manifest.json");
    if (!is_whole) out.push_back("half an archive: " + o.show());
  }
  return out;
}

/// What was left goes as well: it was told.
void clear(const WorkDir& dir) {
  Args argv{"/bin/rm", "-rf", dir.at("new"), dir.at("archive.tar.gz")};
  for (const std::string& line : left_in(dir)) {
    argv.push_back(line.substr(std::string("file ").size()));
  }
  test::run({.argv = argv});
}

/// Processes below us that are no zombies; reaps what is ours to reap.
std::vector<std::string> living() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  std::vector<std::string> out = descendants();
  std::erase_if(out, [](const std::string& line) { return contains(line, ") Z"); });
  return out;
}

/// Who still lives when a second has passed.
std::vector<std::string> survivors() {
  const double end = now() + 1.0 * slowness();
  for (;;) {
    std::vector<std::string> left = living();
    if (left.empty() || now() > end) return left;
    pause(0.005);
  }
}

void write_text(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!::write(fd, text.data(), text.size());
  ::close(fd);
}

/// The control groups below `dir` of the sbx with this pid.
void find_groups(const std::string& dir, pid_t pid, int depth, std::vector<std::string>& out) {
  const std::string prefix = "sbx-" + std::to_string(pid) + "-";
  for (const std::string& name : names_in(dir)) {
    const std::string path = dir + "/" + name;
    struct stat st {};
    if (::lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) continue;
    if (name.rfind(prefix, 0) == 0) out.push_back(path);
    if (depth > 0) find_groups(path, pid, depth - 1, out);
  }
}

enum class Frozen { kNo, kDies, kStays };

/// Freezes the job of the sbx `pid`, if it has a group already. In v1 a frozen process does not
/// even die of SIGKILL, until the next command thaws it; its group is one of the run's, by its
/// name.
Frozen freeze(pid_t pid) {
  std::vector<std::string> groups;
  find_groups("/sys/fs/cgroup", pid, 6, groups);
  Frozen how = Frozen::kNo;
  for (const std::string& group : groups) {
    if (exists(group + "/cgroup.freeze")) {
      write_text(group + "/cgroup.freeze", "1");
      how = Frozen::kDies;
    } else if (exists("/sys/fs/cgroup/freezer") && how == Frozen::kNo) {
      const std::string own = "/sys/fs/cgroup/freezer" + group.substr(group.rfind('/'));
      ::mkdir(own.c_str(), 0755);
      for (const std::string& job : lines_of(slurp(group + "/cgroup.procs"))) {
        write_text(own + "/cgroup.procs", job);
      }
      write_text(own + "/freezer.state", "FROZEN");
      how = Frozen::kStays;
    }
  }
  return how;
}

struct Plan {
  int kills = 300;
  int seed = 1;
  int full_disk = 0;
};

class Storm {
 public:
  explicit Storm(const Plan& plan) : plan_(plan), random_(static_cast<unsigned>(plan.seed)) {
    dir_.write("input", std::string(5000, 'x'));
    prepare_disk();
    all_ = kinds(dir_);
    std::erase_if(all_, [](const Kind& kind) { return kind.name == "python" && !have("python"); });
  }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;
  ~Storm() {
    if (plan_.full_disk != 0) ::umount2(dir_.path().c_str(), MNT_DETACH);
  }

  int run();

 private:
  void prepare_disk();
  void fill_disk() const;
  Spec spec_of(const Args& args) const;
  void measure();
  std::vector<std::string> kill_one(int number);
  double draw(double end) { return std::uniform_real_distribution<double>(0, end)(random_); }

  Plan plan_;
  std::mt19937 random_;
  WorkDir dir_;
  std::vector<Kind> all_;
  std::string what_;  // of the last kill, for messages
  std::map<std::string, int> counts_;
};

/// Output place and state directory on a file system that is full to the last block.
void Storm::prepare_disk() {
  if (plan_.full_disk != 0) {
    const std::string options = "mode=755,size=512k,uid=" + std::to_string(subject().uid) +
                                ",gid=" + std::to_string(subject().gid);
    if (::mount("tmpfs", dir_.path().c_str(), "tmpfs", 0, options.c_str()) != 0) {
      std::printf("SKIP: needs to mount a tmpfs\n");
      std::exit(0);
    }
    dir_.write("input", "x");
  }
  test::run({.argv = {"/bin/mkdir", dir_.at("old")}, .as = &subject()});
  test::run(spec_of({"gc"}));  // makes what is made once
  if (plan_.full_disk != 0) fill_disk();
}

void Storm::fill_disk() const {
  const int fd = ::open(dir_.at("filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0644);
  const std::string block(4096, 'x');
  while (::write(fd, block.data(), block.size()) > 0) {
  }
  ::close(fd);
}

Spec Storm::spec_of(const Args& args) const {
  Spec spec = sbx_spec(args);
  if (plan_.full_disk == 0) return spec;
  spec.env = environment_of(subject());
  spec.env.push_back("SBX_STATE_DIR=" + dir_.at("state"));
  return spec;
}

/// How long each kind lives when it is left alone.
void Storm::measure() {
  for (Kind& kind : all_) {
    for (int i = 0; i < 3 && (kind.life == 0 || i > 0); ++i) {
      clear(dir_);
      kind.life = std::max(kind.life, test::run(spec_of(kind.args)).seconds);
    }
  }
  clear(dir_);
}

std::vector<std::string> Storm::kill_one(int number) {
  const auto count = static_cast<std::size_t>(number);
  // All kinds in turn first, then at random.
  const Kind& kind = all_[count < all_.size() ? count : random_() % all_.size()];
  const double moment = draw(kind.life * 1.1);
  const bool is_stopped = random_() % 6 == 0;
  const bool is_to_freeze = random_() % 5 == 0;
  Frozen frozen = Frozen::kNo;
  what_ = kind.name + " after " + std::to_string(static_cast<int>(moment * 1e6)) + " us" +
          (is_stopped ? ", stopped before" : "");
  ++counts_[kind.name];
  {
    Child child(spec_of(kind.args));
    pause(moment);
    if (is_stopped) {
      child.kill(SIGSTOP);
      pause(0.002);
    }
    if (is_to_freeze) frozen = freeze(child.pid());
    child.kill(SIGKILL);
    child.wait();
  }
  if (frozen != Frozen::kNo) {
    what_ += ", frozen";
    ++counts_["frozen ones"];
  }
  std::vector<std::string> wrong;
  if (frozen != Frozen::kStays) wrong = survivors();
  const std::vector<Args> next = {
      {"version"}, {"gc", "--json"}, {"profile", "ls"}, bash_args("true")};
  const Outcome o = test::run(spec_of(next[random_() % next.size()]));
  if (o.code != 0) wrong.push_back("the next command: " + o.show());
  for (const std::string& line : survivors()) {
    wrong.push_back("after the next command: " + line);
  }
  for (const std::string& line : left_in(dir_)) {
    wrong.push_back(line);
  }
  for (const std::string& line : half_in(dir_)) {
    wrong.push_back(line);
  }
  return wrong;
}

int Storm::run() {
  measure();
  const LeakCheck check;
  const double begin = now();
  int wrong = 0;
  for (int i = 0; i < plan_.kills; ++i) {
    std::vector<std::string> lines = kill_one(i);
    for (const std::string& line : check.left(0)) {
      // A zombie we shall reap. Files: what a run makes was looked at; others test beside us.
      if (!contains(line, ") Z") && line.rfind("file ", 0) != 0) lines.push_back(line);
    }
    clear(dir_);
    if (lines.empty()) continue;
    ++wrong;
    std::printf("kill %d (%s):\n%s", i, what_.c_str(), joined(lines).c_str());
  }
  (void)living();  // reaps
  const std::vector<std::string> left = check.left(2);
  std::printf("%d kills as %s, seed %d%s, %.0f s:",
              plan_.kills,
              subject().name.c_str(),
              plan_.seed,
              plan_.full_disk != 0 ? ", full disk" : "",
              now() - begin);
  for (const auto& [name, count] : counts_) {
    std::printf(" %d %s,", count, name.c_str());
  }
  std::printf(" %d wrong, %zu left\n%s", wrong, left.size(), joined(left).c_str());
  return wrong == 0 && left.empty() ? 0 : 1;
}

}  // namespace
}  // namespace sbx::test

int main(int argc, char** argv) {
  sbx::test::Plan plan;
  const bool is_good = sbx::test::read_flags(
      argc,
      argv,
      {{"--kills", &plan.kills}, {"--seed", &plan.seed}, {"--full-disk", &plan.full_disk}},
      "storm [--kills N] [--seed S] [--full-disk 0|1]");
  return is_good ? sbx::test::Storm(plan).run() : 2;
}
