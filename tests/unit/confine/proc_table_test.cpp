// proc table test: what /proc says of processes, however they are named and whenever they end.
#include "core/confine/proc_table.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/confine/in_child.h"

namespace sbx::confine {

TEST_CASE("proc table: the status of a process in nested namespaces, with signals waiting") {
  const auto status = parse_proc_status(
      "Name:\tUid:\\t0\nUmask:\t0022\nUid:\t1\t1000\t2\t3\nNSpid:\t4711\t17\t2\nNSsid:"
      "\t4000\t16\t1\n"
      "SigPnd:\t0000000000000100\nShdPnd:\t0000000000004000\n");
  REQUIRE(status.has_value());
  CHECK(status->pids == std::vector<pid_t>{4711, 17, 2});
  CHECK(status->sessions == std::vector<pid_t>{4000, 16, 1});
  CHECK(status->uid == 1000);
  CHECK(status->pending == 0x4100);
  CHECK_FALSE(parse_proc_status("").has_value());
  CHECK_FALSE(parse_proc_status("NSpid:\t1\nUid:\t1\t2\t3\t4\n").has_value());
}

TEST_CASE("proc table: this process and its descendants, also orphaned ones of a subreaper") {
  const auto proc = open_proc();
  REQUIRE(proc.ok());
  const int fd = proc.value().get();
  const auto self = read_proc_stat(fd, ::getpid());
  REQUIRE(self.has_value());
  CHECK(self->parent == ::getppid());
  CHECK(self->session == ::getsid(0));
  CHECK(self->rss > 0);
  const auto status = read_proc_status(fd, ::getpid());
  REQUIRE(status.has_value());
  CHECK(status->pids.front() == ::getpid());
  CHECK(status->uid == ::geteuid());
  CHECK(read_proc_command(fd, ::getpid(), 3).size() == 3);

  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t between = ::fork();
    if (between == 0) {
      if (::fork() == 0) test::sleep_for_ever();
      ::_exit(0);
    }
    ::waitpid(between, nullptr, 0);
    test::sleep_for_ever();
  }
  std::vector<pid_t> found;
  for (int i = 0; i < 2000; ++i) {
    found = find_descendants(fd, child, 100);
    const auto orphan = found.size() == 1 ? read_proc_stat(fd, found[0]) : std::nullopt;
    if (orphan && orphan->parent == child) break;
    ::usleep(1000);
  }
  CHECK(found.size() == 1);
  CHECK(find_descendants(fd, ::getpid(), 1).size() == 1);
  const auto all = list_processes(fd);
  REQUIRE(all.ok());
  CHECK(std::is_sorted(all.value().begin(), all.value().end()));
  CHECK(std::binary_search(all.value().begin(), all.value().end(), child));
  for (const pid_t pid : found) {
    ::kill(pid, SIGKILL);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(read_proc_stat(fd, child).has_value());
  CHECK_FALSE(read_proc_status(fd, child).has_value());
  CHECK(read_proc_command(fd, child, 100).empty());
  CHECK(find_descendants(fd, child, 100).empty());
}

}  // namespace sbx::confine
