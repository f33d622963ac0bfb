// Jail driver: see jail_driver.h.
#include "tests/unit/backend/jail_driver.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include <doctest/doctest.h>

#include "core/base/loop.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/idmap.h"
#include "core/supervise/supervisor.h"

#include "tests/support/process.h"

namespace sbx::test {

namespace {

struct Seen {
  std::string error;
  int wait_status = -1;
};

/// In the child: the whole life of one sandbox. `out`: what the script writes.
Seen live(const Workspace& workspace, JailRequest& request, std::string& base, std::string& out) {
  backend::LaunchRequest launch;
  launch.profile = &request.profile;
  launch.id = text::cat("t", ::getpid());
  launch.state_dir = workspace.state();
  const backend::Backend& jail = backend::jail_backend();
  if (!request.upper.empty()) {
    const auto made = jail.base_layer(launch, workspace.layers());
    if (!made.ok()) return {made.error().to_string(), -1};
    base = made.value();
    launch.root.emplace();
    launch.root->lowers.push_back(workspace.layer(base));
    for (const std::string& lower : request.lowers) {
      launch.root->lowers.push_back(workspace.layer(lower));
    }
    launch.root->upper = workspace.layer(request.upper);
  }
  auto plan = jail.plan(launch);
  if (!plan.ok()) return {plan.error().to_string(), -1};
  auto sandbox = plan.value()->launch(nullptr);
  if (!sandbox.ok()) return {sandbox.error().to_string(), -1};
  Loop loop;
  supervise::AllowGate gate;
  supervise::Supervisor supervisor(
      loop, std::move(sandbox).value(), [](const supervise::Event& /*e*/) {}, gate);
  Seen seen;
  const auto fail = [&](const Error& error) {
    seen.error = error.to_string();
    loop.stop();
  };
  supervisor.when_broken([&](Error error) { fail(error); });
  backend::ExecSpec spec;
  spec.argv = {"/bin/sh", "-c", request.script};
  spec.env = {"PATH=/usr/bin:/bin", "HOME=/home/sbx"};
  UniqueFd stream;
  UniqueFd complaints;
  supervise::ExecHandler handler;
  handler.on_streams = [&](backend::ExecStreams streams) {
    stream = std::move(streams.out);
    complaints = std::move(streams.err);
  };
  handler.on_exit = [&](int status) {
    seen.wait_status = status;
    loop.stop();
  };
  handler.on_failed = [&](int /*error*/, Error message) { fail(message); };
  const auto started = supervisor.exec(spec, supervise::Stdin::kNone, std::move(handler));
  if (!started.ok()) return {started.error().to_string(), -1};
  if (const Status turned = loop.run(); !turned.ok()) return {turned.error().to_string(), -1};
  const auto ended = supervisor.shutdown();
  if (!ended.ok() && seen.error.empty()) seen.error = ended.error().to_string();
  for (const UniqueFd* from : {&stream, &complaints}) {
    if (!from->valid()) continue;
    (void)sys::set_nonblocking(from->get(), true);
    if (auto all = sys::read_all(from->get(), Bytes{1U << 20}); all.ok()) out += all.value();
  }
  return seen;
}

void become(const Identity& who) {
  if (who.uid == ::getuid()) return;
  if (::setgroups(0, nullptr) != 0 || ::setgid(who.gid) != 0 || ::setuid(who.uid) != 0) {
    ::_exit(99);
  }
  (void)::prctl(PR_SET_DUMPABLE, 1);  // the change took it, and with it the right to /proc/PID
}

std::string read_all_of(int fd) {
  std::string out;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got <= 0) return out;
    out.append(buffer.data(), static_cast<size_t>(got));
  }
}

}  // namespace

Workspace::Workspace(const Identity& who) : who_(who), dir_(who), state_(dir_.at("state")) {
  on_host("mkdir -m 700 " + state_ + " && mkdir -m 700 " + layers());
}

void Workspace::on_host(const std::string& script) const {
  Spec spec;
  spec.argv = {"/bin/sh", "-ec", script};
  spec.as = &who_;
  Child child(spec);
  const Outcome outcome = child.wait();
  REQUIRE_MESSAGE(outcome.code == 0, outcome.show());
}

void Workspace::make_layer(const std::string& name) const {
  on_host("mkdir -m 700 " + layer(name));
}

void Workspace::give_to_job(const std::string& name) const {
  if (who_.uid != 0) return;
  const std::string id = std::to_string(confine::IdRange::kStorage + 1000);
  on_host("chown -hR " + id + ":" + id + " " + layer(name));
}

JailRun run_jail(const Workspace& workspace, JailRequest request) {
  request.profile.name = "test";
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    (void)::close(pipe[0]);
    become(workspace.who());
    std::string base;
    std::string out;
    const Seen seen = live(workspace, request, base, out);
    const std::string all = text::cat(seen.wait_status,
                                      std::string_view("\0", 1),
                                      seen.error,
                                      std::string_view("\0", 1),
                                      base,
                                      std::string_view("\0", 1),
                                      out);
    (void)sys::write_all(pipe[1], all).ok();
    ::_exit(0);
  }
  (void)::close(pipe[1]);
  const std::string all = read_all_of(pipe[0]);
  (void)::close(pipe[0]);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(status == 0);
  const auto parts = text::split(all, '\0');
  REQUIRE(parts.size() >= 4);
  const int wait_status = std::atoi(std::string(parts[0]).c_str());
  JailRun run;
  run.error = parts[1];
  run.base = parts[2];
  run.out = all.substr(parts[0].size() + parts[1].size() + parts[2].size() + 3);
  run.status = run.error.empty() && WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  return run;
}

std::vector<const Identity*> identities() {
  std::vector<const Identity*> all{&self()};
  if (::geteuid() == 0) all.push_back(&test_user());
  return all;
}

}  // namespace sbx::test
