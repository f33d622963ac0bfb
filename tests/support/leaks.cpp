// leaks: compares the host before and after: processes, mounts, cgroups and files that stayed.
#include "tests/support/leaks.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "tests/support/process.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

struct Proc {
  pid_t parent = 0;
  std::string text;
};

/// pid, (name), state and parent from /proc/PID/stat; the name may hold anything but its last ')'.
bool read_stat(const std::string& pid, Proc& out) {
  const std::string stat = slurp("/proc/" + pid + "/stat");
  const size_t close = stat.rfind(')');
  if (close == std::string::npos || close + 4 > stat.size()) {
    return false;
  }
  out.parent = static_cast<pid_t>(std::strtol(stat.c_str() + close + 4, nullptr, 10));
  out.text = stat.substr(0, close + 3);
  return true;
}

void collect_cgroups(const std::string& dir, int depth, std::vector<std::string>& out) {
  if (depth > 6) {
    return;
  }
  for (const auto& name : names_in(dir)) {
    const std::string path = dir + "/" + name;
    struct stat st {};
    if (::lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
      continue;
    }
    if (name.rfind("sbx-", 0) == 0) {
      out.push_back("cgroup " + path);
    }
    collect_cgroups(path, depth + 1, out);
  }
}

/// A group whose name says that its maker (sbx-PID-START-…) still lives belongs to somebody else.
bool maker_lives(const std::string& path) {
  const size_t at = path.rfind("/sbx-");
  if (at == std::string::npos) {
    return false;
  }
  const char* digits = path.c_str() + at + 5;
  return std::isdigit(static_cast<unsigned char>(*digits)) != 0 &&
         exists("/proc/" + std::to_string(std::strtol(digits, nullptr, 10)));
}

std::vector<std::string> cgroups() {
  std::vector<std::string> out;
  collect_cgroups("/sys/fs/cgroup", 0, out);
  out.erase(std::remove_if(out.begin(), out.end(), maker_lives), out.end());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> mounts() {
  std::vector<std::string> out;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    out.push_back("mount " + line);
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool ours(const std::string& name) {
  return name.find("sbx") != std::string::npos && name.rfind("sbx-e2e-", 0) != 0 &&
         name.rfind("sbx-test", 0) != 0 && name.rfind("sbx-soak-", 0) != 0 &&
         name.rfind("sbx-unit-", 0) != 0 && name.rfind("sbx-run-test-", 0) != 0;
}

std::vector<std::string> files() {
  std::vector<std::string> out;
  for (const std::string dir : {"/tmp", "/var/tmp", "/dev/shm", "/run", "/"}) {
    for (const auto& name : names_in(dir)) {
      if (ours(name)) {
        out.push_back("file " + dir + "/" + name);
      }
    }
  }
  const std::string state =
      subject_is_root() ? "/var/lib/sbx" : subject().home + "/.local/state/sbx";
  for (const auto& sub : {state, state + "/ids", state + "/runs", state + "/tmp"}) {
    for (const auto& name : names_in(sub)) {
      out.push_back("file " + sub + "/" + name);
    }
  }
  for (const auto& name : names_in(subject().home)) {
    out.push_back("file " + subject().home + "/" + name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

void add_new(const std::vector<std::string>& before,
             const std::vector<std::string>& after,
             std::vector<std::string>& out) {
  std::set_difference(
      after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(out));
}

}  // namespace

std::vector<std::string> descendants() {
  std::map<pid_t, Proc> all;
  for (const auto& name : names_in("/proc")) {
    Proc proc;
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0 && read_stat(name, proc)) {
      all[static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10))] = proc;
    }
  }
  std::set<pid_t> below{::getpid()};
  std::vector<std::string> out;
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [pid, proc] : all) {
      if (below.count(proc.parent) != 0 && below.insert(pid).second) {
        out.push_back("process " + proc.text);
        grew = true;
      }
    }
  }
  return out;
}

LeakCheck::LeakCheck() : mounts_(mounts()), cgroups_(cgroups()), files_(files()) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // what an earlier case killed and left to us
  }
}

std::vector<std::string> LeakCheck::left(double seconds) const {
  const double end = now() + seconds * slowness();
  while (true) {
    std::vector<std::string> out = descendants();
    add_new(mounts_, mounts(), out);
    add_new(cgroups_, cgroups(), out);
    add_new(files_, files(), out);
    if (out.empty() || now() > end) {
      return out;
    }
    pause(0.1);
  }
}

std::vector<std::string> LeakCheck::left_after_kill(double seconds) const {
  const double end = now() + seconds * slowness();
  while (true) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    std::vector<std::string> out = left(0);
    if (out.empty() || now() > end) {
      return out;
    }
    pause(0.02);
  }
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines) {
    out += line + "\n";
  }
  return out;
}

}  // namespace sbx::test
