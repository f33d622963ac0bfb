// Scope: see scope.h.
#include "core/confine/scope.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::confine {
namespace {

constexpr const char* kBusctl = "/usr/bin/busctl";
constexpr long kPauseNs = 1'000'000;

bool is_in(const std::string& unit, const std::string& self_cgroup) {
  const auto text = fs::read_file(self_cgroup, Bytes{1U << 20U});
  return text.ok() && text.value().find(text::cat("/", unit)) != std::string::npos;
}

std::vector<std::string> environment(const std::string& runtime_dir) {
  std::vector<std::string> env{text::cat("XDG_RUNTIME_DIR=", runtime_dir), "PATH=/usr/bin:/bin"};
  if (const char* bus = std::getenv("DBUS_SESSION_BUS_ADDRESS"); bus != nullptr) {
    env.push_back(text::cat("DBUS_SESSION_BUS_ADDRESS=", bus));
  }
  return env;
}

}  // namespace

ScopeView look_for_manager(const CgroupLayout& layout) {
  ScopeView view;
  view.is_root = ::geteuid() == 0;
  view.is_delegated = layout.memory.usable() || layout.pids.usable();
  if (view.is_root || view.is_delegated) return view;
  const char* dir = std::getenv("XDG_RUNTIME_DIR");
  view.runtime_dir =
      dir != nullptr && *dir == '/' ? std::string(dir) : text::cat("/run/user/", ::geteuid());
  view.has_manager = ::access(text::cat(view.runtime_dir, "/systemd/private").c_str(), F_OK) == 0;
  if (::access(kBusctl, X_OK) == 0) view.busctl = kBusctl;
  view.pid = ::getpid();
  return view;
}

std::optional<ScopeCall> plan_scope(const ScopeView& view) {
  if (view.is_root || view.is_delegated || !view.has_manager || view.busctl.empty()) return {};
  ScopeCall call;
  call.unit = text::cat("sbx-", view.pid, ".scope");
  call.runtime_dir = view.runtime_dir;
  // org.freedesktop.systemd1(5): StartTransientUnit(name, mode, properties, auxiliary units).
  call.argv = {view.busctl,
               "--user",
               "--quiet",
               "--timeout=2",
               "--allow-interactive-authorization=no",
               "call",
               "org.freedesktop.systemd1",
               "/org/freedesktop/systemd1",
               "org.freedesktop.systemd1.Manager",
               "StartTransientUnit",
               "ssa(sv)a(sa(sv))",
               call.unit,
               "fail",
               "4",
               "PIDs",
               "au",
               "1",
               std::to_string(view.pid),
               "Delegate",
               "b",
               "true",
               "CollectMode",
               "s",
               "inactive-or-failed",
               "Description",
               "s",
               "sandbox",
               "0"};
  return call;
}

Status enter_scope(const ScopeCall& call, Millis patience, const std::string& self_cgroup) {
  const std::int64_t end = monotonic_now().v + patience.v;
  SpawnOptions options;
  options.argv = call.argv;
  options.env = environment(call.runtime_dir);
  SBX_ASSIGN(ChildProcess child, spawn(options));  // killed and reaped on every way out
  std::array<pollfd, 1> polled{{{child.pidfd(), POLLIN, 0}}};
  SBX_ASSIGN(const int ready, sys::poll(polled, patience));
  if (ready == 0) return Error(Errc::kTimeout, "the user's systemd does not answer");
  SBX_ASSIGN(const int status, child.wait());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Error(Errc::kUnsupported, text::cat("the user's systemd makes no scope ", call.unit));
  }
  // The answer is that a job was queued; the move follows.
  while (!is_in(call.unit, self_cgroup)) {
    if (monotonic_now().v >= end) {
      return Error(Errc::kTimeout, text::cat("the user's systemd did not move us to ", call.unit));
    }
    const timespec pause{.tv_sec = 0, .tv_nsec = kPauseNs};
    ::nanosleep(&pause, nullptr);
  }
  return {};
}

}  // namespace sbx::confine
