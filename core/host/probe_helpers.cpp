// What several probes do: a trial in a child, a search in $PATH, a helper program with a time
// limit.
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "core/base/clock.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/idmap.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

[[noreturn]] void run_trial(Trial trial, int go, int answer) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  char byte = 0;
  if (::read(go, &byte, 1) != 1) ::_exit(1);
  const TrialEnd end = trial();
  ::_exit(::write(answer, &end, sizeof end) == ssize_t{sizeof end} ? 0 : 1);
}

Result<TrialEnd> read_end(ChildProcess& child, int answer) {
  TrialEnd end;
  SBX_ASSIGN(const std::size_t got, sys::read(answer, reinterpret_cast<char*>(&end), sizeof end));
  SBX_ASSIGN(const int status, child.wait());
  if (got == sizeof end && WIFEXITED(status)) return end;
  return Error(Errc::kSystem, "the child that tried it was killed");
}

}  // namespace

Result<TrialEnd> try_in_namespaces(std::uint64_t flags, Trial trial) {
  SBX_ASSIGN(sys::Pipe go, sys::pipe());
  SBX_ASSIGN(sys::Pipe answer, sys::pipe());
  int pidfd = -1;
  clone_args args{};
  args.flags = flags | CLONE_PIDFD;
  const bool is_own = (flags & CLONE_NEWUSER) != 0;
  args.exit_signal = SIGCHLD;
  args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  const auto pid = sys::clone3(args);
  if (!pid.ok()) return explain_userns_failure(pid.error().sys_errno());
  if (pid.value() == 0) {
    go.w.reset();
    answer.r.reset();
    run_trial(trial, go.r.get(), answer.w.get());
  }
  ChildProcess child(pid.value(), UniqueFd(pidfd));
  answer.w.reset();
  if (is_own) {
    const std::array<confine::IdMap, 1> uid{{{.inside = 0, .outside = ::geteuid(), .count = 1}}};
    const std::array<confine::IdMap, 1> gid{{{.inside = 0, .outside = ::getegid(), .count = 1}}};
    const Status mapped = confine::write_idmaps(pid.value(), uid, gid, true);
    if (!mapped.ok()) return explain_userns_failure(mapped.error().sys_errno());
  }
  SBX_TRY(sys::write_all(go.w.get(), "g"));
  return read_end(child, answer.r.get());
}

Result<TrialEnd> try_in_child(Trial trial) {
  return try_in_namespaces(0, trial);
}

std::optional<std::string> find_in_path(const DoctorContext& context, std::string_view program) {
  const std::string path = context.paths.env("PATH").value_or("/usr/bin:/bin");
  for (const std::string_view dir : text::split(path, ':')) {
    std::string candidate = text::cat(dir.empty() ? "." : dir, "/", program);
    const std::string real = text::cat(context.files.root, candidate);
    const auto info = sys::fstatat(AT_FDCWD, real, 0);
    if (info.ok() && S_ISREG(info.value().st_mode) && ::access(real.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return std::nullopt;
}

Result<Printed> run_helper(const std::vector<std::string>& argv, Millis deadline) {
  constexpr std::size_t kMaxKept = 1U << 20U;
  SBX_ASSIGN(sys::Pipe out, sys::pipe());
  SBX_ASSIGN(sys::Pipe err, sys::pipe());
  SpawnOptions options;
  options.argv = argv;
  options.out = out.w.get();
  options.err = err.w.get();
  SBX_ASSIGN(ChildProcess child, spawn(options));
  out.w.reset();
  err.w.reset();
  Printed printed;
  std::array<pollfd, 2> polled{{{out.r.get(), POLLIN, 0}, {err.r.get(), POLLIN, 0}}};
  const std::array<std::string*, 2> texts{&printed.out, &printed.err};
  const std::int64_t end = monotonic_now().v + deadline.v;
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    const Millis left{end - monotonic_now().v};
    SBX_ASSIGN(const int ready, sys::poll(polled, Millis{left.v < 0 ? 0 : left.v}));
    if (ready == 0) {
      return Error(Errc::kTimeout, text::cat(argv[0], " did not end within ", to_string(deadline)));
    }
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled.at(i).fd < 0 || polled.at(i).revents == 0) continue;
      std::array<char, 8192> buffer{};
      SBX_ASSIGN(const std::size_t got, sys::read(polled.at(i).fd, buffer.data(), buffer.size()));
      if (got == 0) polled.at(i).fd = -1;
      if (texts.at(i)->size() < kMaxKept) texts.at(i)->append(buffer.data(), got);
    }
  }
  SBX_ASSIGN(printed.status, child.wait());
  return printed;
}

}  // namespace sbx::host
