// cgroup_on_host: what the tests of real control groups share.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/confine/cgroup.h"

#include "tests/support/user.h"
#include "tests/unit/confine/in_child.h"

namespace sbx::confine {

inline constexpr Bytes kMemory{64U << 20U};

inline CgroupLayout host_layout() {
  auto layout = probe_cgroups();
  REQUIRE(layout.ok());
  return std::move(layout).value();
}

inline CgroupRequest request(std::optional<Bytes> memory, std::optional<std::uint64_t> pids) {
  auto id = cgroup_id();
  REQUIRE(id.ok());
  CgroupRequest out;
  out.id = std::move(id).value();
  out.memory = memory;
  out.pids = pids;
  return out;
}

inline Cgroup create(const CgroupRequest& wanted) {
  auto group = Cgroup::create(host_layout(), wanted);
  if (!group.ok()) FAIL(group.error().to_string());
  return std::move(group).value();
}

inline int join(const Cgroup& group) {
  for (const UniqueFd& fd : group.join_fds()) {
    if (::write(fd.get(), "0", 1) != 1) return errno;
  }
  return 0;
}

/// A child in the group that sleeps until it is killed.
inline pid_t sleeper(const Cgroup& group) {
  int ready[2];
  REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (join(group) != 0) ::_exit(1);
    if (::write(ready[1], "r", 1) != 1) ::_exit(1);
    test::sleep_for_ever();
  }
  char byte = 0;
  CHECK(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return pid;
}

inline int signal_of(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return -1;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/// Groups of this test process that exist now, in all places.
inline std::vector<std::string> groups_there() {
  const CgroupLayout layout = host_layout();
  const std::string own = "sbx-" + std::to_string(::getpid()) + "-";
  std::vector<std::string> out;
  for (const ControllerPlace* place :
       {&layout.memory, &layout.pids, &layout.cpu, &layout.accounting, &layout.freezer}) {
    if (!place->usable()) continue;
    for (const std::string& name : test::names_in(place->dir)) {
      if (name.starts_with(own)) out.push_back(place->dir + "/" + name);
    }
  }
  return out;
}

}  // namespace sbx::confine
