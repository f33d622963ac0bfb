// in_child: runs a function in a forked child and gives back how the child ended.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace sbx::test {

/// Sleeps until it is killed.
[[noreturn]] inline void sleep_for_ever() {
  for (;;) {
    ::pause();
  }
}

/// Forks `tries` sleeping children; how many came to be.
inline int count_forks(int tries) {
  int count = 0;
  for (int i = 0; i < tries; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) sleep_for_ever();
    if (pid > 0) ++count;
  }
  return count;
}

/// The exit status (0 to 255), or -N when signal N ended it. What the function returns is the exit
/// status.
template <typename F>
int in_child(F function) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(function());
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace sbx::test
