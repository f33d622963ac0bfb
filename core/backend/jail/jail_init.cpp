// Jail init: see jail_init.h.
//
// Theory of operation. In this order:
//   1. hide our arguments, die with the supervisor, block signals, drop every inherited descriptor
//   but the link, so
//      that nothing of the caller's (files, terminal) is reachable from here on
//   2. wait for Begin; the supervisor has written our id maps by then
//   3. with an id range become 0 of it, or new files would belong to ids that do not exist inside
//   4. become undumpable: /proc/1 of us shows nothing, whatever ids the job has
//   5. the base, while the supervisor still plans; then Setup and the plan's own steps; the first
//      step that fails is reported with its text, and nothing runs
//   6. hand out the working directory, say Ready, serve as the agent.
#include "core/backend/jail/jail_init.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "core/agent/agent.h"
#include "core/backend/jail/jail_codec.h"
#include "core/base/arguments.h"
#include "core/base/sys.h"
#include "core/confine/mount_exec.h"
#include "core/ipc/channel.h"

namespace sbx::jail {

namespace {

constexpr const char* kShownName = "sbx-init";

Status leave_caller(UniqueFd& link) {
  // The job can read /proc/1/cmdline; code, paths and values of the caller are not for it.
  hide_arguments(kShownName);
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  sigset_t all;
  sigfillset(&all);
  (void)::sigprocmask(SIG_SETMASK, &all, nullptr);
  SBX_ASSIGN(UniqueFd null, sys::open("/dev/null", O_RDWR));
  for (int fd = 0; fd < 3; ++fd) {
    SBX_TRY(sys::dup_onto(null.get(), fd, false));
  }
  (void)null.release();  // its number is closed, or taken by the link, below
  if (link.get() != kLinkFd) {
    SBX_TRY(sys::dup_onto(link.get(), kLinkFd, true));
    (void)link.release();  // its old number is closed below
    link.reset(kLinkFd);
  } else {
    (void)::fcntl(kLinkFd, F_SETFD, FD_CLOEXEC);
  }
  return sys::close_range(kLinkFd + 1, ~0U);
}

Status drop_groups() {
  if (::syscall(SYS_setgroups, 0, nullptr) != 0) return sys_error("drop supplementary groups");
  return {};
}

/// Where we are 0 already the ids are a user's, who may reach inputs and mounts by one of its
/// groups: they are kept for the set-up.
Status become_inner_root() {
  const bool is_users = ::geteuid() == 0;
  if (::syscall(SYS_setresgid, 0, 0, 0) != 0) return sys_error("become group 0 of the sandbox");
  if (!is_users) SBX_TRY(drop_groups());
  if (::syscall(SYS_setresuid, 0, 0, 0) != 0) return sys_error("become user 0 of the sandbox");
  return {};
}

/// Moves `count` descriptors from `all`, from `*next` on.
std::vector<UniqueFd> take(std::vector<UniqueFd>& all, size_t& next, uint32_t count) {
  std::vector<UniqueFd> out;
  for (uint32_t i = 0; i < count && next < all.size(); ++i) {
    out.push_back(std::move(all[next++]));
  }
  return out;
}

[[noreturn]] void fail(ipc::Channel& channel, std::string step, const Error& error) {
  (void)channel.send(ipc::SetupFailed{std::move(step), error.message(), error.sys_errno()});
  ::_exit(1);
}

Result<agent::FileId> own_binary() {
  struct stat info {};
  if (::stat("/proc/self/exe", &info) != 0) return sys_error("stat our own binary");
  return agent::FileId{info.st_dev, info.st_ino};
}

void carry_out(ipc::Channel& channel,
               confine::MountExecutor& executor,
               std::span<const confine::Step> steps) {
  for (const confine::Step& step : steps) {
    if (const Status done = executor.execute(step); !done.ok()) {
      fail(channel, confine::to_text(step), done.error());
    }
  }
}

/// Signals that the caller ignores would stay so in every program inside (signal(7)); those that it
/// handles were reset by CLONE_CLEAR_SIGHAND or an exec.
void stop_ignoring(uint64_t signals) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signo = 1; signo < NSIG; ++signo) {
    if ((signals >> (signo - 1) & 1) != 0) (void)::sigaction(signo, &standard, nullptr);
  }
}

/// From Begin on: what every jail has.
Status make_base(ipc::Channel& channel, confine::MountExecutor& executor) {
  SBX_ASSIGN(ipc::Received received, channel.receive(ipc::Wait::kYes));
  const auto* begin = std::get_if<ipc::Begin>(&received.message);
  if (begin == nullptr || begin->version != ipc::kProtocolVersion) {
    return Error(Errc::kProtocol, "the first message is not a beginning of our version");
  }
  stop_ignoring(begin->ignored_signals);
  if (begin->has_id_range) SBX_TRY(become_inner_root());
  // After the change of ids, which may set it again (prctl(2), PR_SET_DUMPABLE).
  SBX_TRY(sys::prctl("make PID 1 undumpable", PR_SET_DUMPABLE, 0));
  SBX_TRY(confine::MountExecutor::isolate());
  SBX_ASSIGN(const std::vector<confine::Step> steps, decode_steps(begin->base));
  executor.set_sources(received.fds);
  carry_out(channel, executor, steps);
  executor.set_sources({});
  return {};
}

/// Everything up to Ready. Failures of steps do not return.
Result<agent::AgentConfig> set_up(ipc::Channel& channel) {
  agent::AgentConfig config;
  SBX_ASSIGN(config.own_binary, own_binary());
  confine::MountExecutor executor;
  SBX_TRY(make_base(channel, executor));
  SBX_ASSIGN(ipc::Received received, channel.receive(ipc::Wait::kYes));
  const auto* setup = std::get_if<ipc::Setup>(&received.message);
  if (setup == nullptr || setup->version != ipc::kProtocolVersion) {
    return Error(Errc::kProtocol, "the second message is not a set-up of our version");
  }
  SBX_ASSIGN(InitPlan plan, decode_init_plan(setup->plan));
  size_t next = 0;
  config.join_fds = take(received.fds, next, plan.join_fds);
  std::vector<UniqueFd> group = take(received.fds, next, plan.group_fds);
  if (!group.empty()) config.group = std::move(group.front());
  config.is_lasting = plan.is_lasting;
  config.held = take(received.fds, next, plan.held_fds);
  const std::vector<UniqueFd> sources = take(received.fds, next, plan.source_fds);
  config.rules = plan.rules;
  executor.set_sources(sources);
  carry_out(channel, executor, plan.steps);
  if (plan.rules.is_changing_ids) SBX_TRY(drop_groups());
  ::umask(022);  // what programs inside start with
  const UniqueFd work_dir = executor.take_work_dir();
  const int fds[] = {work_dir.get()};
  SBX_TRY(channel.send(ipc::Ready{},
                       work_dir.valid() ? std::span<const int>(fds) : std::span<const int>()));
  return config;
}

}  // namespace

void jail_init_main(UniqueFd link) {
  const Status left = leave_caller(link);
  ipc::Channel channel(std::move(link), ipc::Side::kAgent);
  if (!left.ok()) fail(channel, "leave the caller's descriptors", left.error());
  Result<agent::AgentConfig> config = set_up(channel);
  if (!config.ok()) fail(channel, "prepare PID 1", config.error());
  agent::run_agent(std::move(channel), std::move(config).value());
}

}  // namespace sbx::jail
