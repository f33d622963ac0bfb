// Pause: see pause.h.
#include "core/agent/pause.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "core/base/clock.h"
#include "core/confine/backoff.h"
#include "core/confine/proc_table.h"

namespace sbx::agent {

namespace {

constexpr Millis kDeadline{2000};
/// How long a process that sleeps in the kernel is waited for before that counts as standing still.
constexpr Millis kSleeperPatience{100};
constexpr int kPassesOneByOne = 4;
constexpr std::size_t kMostDeferred = 1024;

bool is_stopped(char state) {
  return state == 'T' || state == 't';
}

bool is_dead(char state) {
  return state == 'Z' || state == 'X' || state == 'x';
}

bool is_in(std::span<const pid_t> pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

}  // namespace

Status Pause::open() {
  if (proc_.valid()) return {};
  SBX_ASSIGN(proc_, confine::open_proc());
  return {};
}

Result<Pause::Pass> Pause::stop_pass(std::span<const pid_t> exempt, bool at_once) {
  SBX_ASSIGN(const std::vector<pid_t> all, confine::list_processes(proc_.get()));
  Pass pass;
  for (const pid_t pid : all) {
    if (pid == ::getpid() || is_in(exempt, pid)) continue;
    const auto stat = confine::read_proc_stat(proc_.get(), pid);
    if (!stat || is_dead(stat->state)) continue;
    const auto known = signalled_.find(pid);
    const bool is_known = known != signalled_.end() && known->second == stat->start_time;
    if (is_stopped(stat->state)) {
      if (!is_known) stopped_before_[pid] = stat->start_time;
      continue;
    }
    // Somebody continued it: a process that was still running then.
    stopped_before_.erase(pid);
    if (is_known && stat->state == 'D') {
      pass.is_sleeping = true;
      continue;
    }
    pass.is_still = false;
    signalled_[pid] = stat->start_time;
    if (!at_once) (void)::kill(pid, SIGSTOP);
  }
  if (!pass.is_still && at_once) {
    (void)::kill(-1, SIGSTOP);
    for (const pid_t pid : exempt) {
      (void)::kill(pid, SIGCONT);
    }
  }
  return pass;
}

Status Pause::stop_all(std::span<const pid_t> exempt) {
  if (is_on_) return {};
  SBX_TRY(open());
  is_on_ = true;
  const std::int64_t start = monotonic_now().v;
  confine::Backoff backoff;
  for (int passes = 0;; ++passes) {
    const Result<Pass> pass = stop_pass(exempt, passes >= kPassesOneByOne);
    if (!pass.ok()) {
      continue_all();
      return pass.error();
    }
    const std::int64_t waited = monotonic_now().v - start;
    if (pass.value().is_still && (!pass.value().is_sleeping || waited >= kSleeperPatience.v)) {
      return {};
    }
    if (waited >= kDeadline.v) {
      continue_all();
      return sys_error("stop the processes of the sandbox", ETIMEDOUT);
    }
    backoff.wait();
  }
}

void Pause::continue_all() {
  is_on_ = false;
  const auto all = confine::list_processes(proc_.get());
  if (all.ok()) {
    std::for_each(all.value().rbegin(), all.value().rend(), [this](pid_t pid) {
      if (pid == ::getpid()) return;
      const auto before = stopped_before_.find(pid);
      if (before != stopped_before_.end()) {
        const auto stat = confine::read_proc_stat(proc_.get(), pid);
        if (stat && stat->start_time == before->second) return;
      }
      (void)::kill(pid, SIGCONT);
    });
  }
  stopped_before_.clear();
  signalled_.clear();
}

bool Pause::defer(std::uint32_t exec_id, int signo) {
  const bool is_job_control = signo == SIGCONT || signo == SIGSTOP || signo == SIGTSTP ||
                              signo == SIGTTIN || signo == SIGTTOU;
  if (!is_on_ || !is_job_control) return false;
  if (deferred_.size() < kMostDeferred) deferred_.emplace_back(exec_id, signo);
  return true;
}

std::vector<std::pair<std::uint32_t, int>> Pause::take_deferred() {
  return std::exchange(deferred_, {});
}

}  // namespace sbx::agent
