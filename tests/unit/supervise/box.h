// box: a lasting sandbox that a test drives through its supervisor, as root or as a plain user.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/loop.h"
#include "core/base/text.h"
#include "core/confine/cgroup.h"
#include "core/supervise/supervisor.h"

#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::supervise {

/// What went wrong in a scenario, which may run in a child: doctest hears only of its text.
using Complaint = std::optional<std::string>;

#define BOX_CHECK(condition)                                                                   \
  do {                                                                                         \
    if (!(condition)) return ::sbx::text::cat(#condition, " is not so (line ", __LINE__, ")"); \
  } while (false)

/// The same for a Status, with its text.
#define BOX_OK(call)                                                                  \
  do {                                                                                \
    const ::sbx::Status status = (call);                                              \
    if (!status.ok()) return ::sbx::text::cat(#call, ": ", status.error().message()); \
  } while (false)

#define OPEN(box)                                       \
  Box box;                                              \
  do {                                                  \
    if (Complaint said = box.open(); said) return said; \
  } while (false)

class Box {
 public:
  /// How an exec ended: a wait status, or why it never ran.
  struct End {
    int status = 0;
    std::optional<Error> error;
  };

  Complaint open() {
    const auto id = confine::cgroup_id();
    if (!id.ok()) return "choose a backend";
    backend::LaunchRequest request;
    request.profile = &profile;
    request.id = id.value();
    request.state_dir = dir_.path();
    request.is_lasting = is_lasting;
    auto plan = backend::jail_backend().plan(request);
    if (!plan.ok()) return plan.error().to_string();
    auto sandbox = plan.value()->launch(nullptr);
    if (!sandbox.ok()) return sandbox.error().to_string();
    has_freezer = sandbox.value()->has_freezer();
    sup = std::make_unique<Supervisor>(
        loop, std::move(sandbox).value(), [](const Event&) {}, gate);
    Complaint out;
    bool is_ready = false;
    sup->when_broken([&](Error error) { out = error.to_string(); });
    sup->when_ready([&] { is_ready = true; });
    wait([&] { return is_ready || out.has_value(); });
    sup->when_broken([](Error) {});
    if (!is_ready && !out.has_value()) out = "it does not get ready";
    return out;
  }

  /// Turns the loop until `is_done`, at most 20 s. Whether it was done.
  bool wait(const std::function<bool()>& is_done) {
    const std::int64_t end =
        monotonic_now().v + static_cast<std::int64_t>(20'000 * test::slowness());
    while (!is_done()) {
      if (monotonic_now().v > end) return false;
      turn(Millis{5});
    }
    return true;
  }
  void turn(Millis time) {
    const Watch timer = loop.add_timer(time, [this] { loop.stop(); });
    (void)loop.run();
  }

  /// Until an exec ends.
  void step() { (void)loop.run(); }

  /// Starts a shell command; its end is in ends[id].
  uint32_t start(const std::string& script, std::optional<backend::User> user = std::nullopt) {
    backend::ExecSpec spec;
    spec.argv = {"/bin/sh", "-c", script};
    spec.env = {"PATH=/usr/bin:/bin"};
    spec.user = user;
    spec.tag = tag;
    ExecHandler handler;
    auto known = std::make_shared<uint32_t>(0);
    handler.on_streams = [this](backend::ExecStreams streams) {
      streams_.push_back(std::move(streams));
    };
    handler.on_exit = [this, known](int status) {
      ends[*known] = End{status, std::nullopt};
      loop.stop();
    };
    handler.on_failed = [this, known](int, Error error) {
      ends[*known] = End{-1, std::move(error)};
      loop.stop();
    };
    const auto id = sup->exec(spec, Stdin::kNone, std::move(handler));
    *known = id.ok() ? id.value() : 0;
    return *known;
  }
  std::optional<End> run(const std::string& script,
                         std::optional<backend::User> user = std::nullopt) {
    const uint32_t id = start(script, user);
    if (!wait([&] { return ends.contains(id); })) return std::nullopt;
    return ends[id];
  }
  /// Text of a file in /work without white space at its ends; empty when there is none.
  std::string file(const std::string& name) const {
    const auto text = fs::read_file_at(sup->work_dir(), name, Bytes{65536});
    return text.ok() ? std::string(text::trim(text.value())) : std::string();
  }
  bool wait_for_file(const std::string& name) {
    return wait([&] { return !file(name).empty(); });
  }
  /// A shell that counts in /work/NAME.
  uint32_t start_counter(const std::string& name) {
    return start("i=0; while :; do i=$((i+1)); echo $i > ." + name + "; mv ." + name + " " + name +
                 "; done");
  }
  bool is_moving(const std::string& name) {
    const std::string before = file(name);
    return wait([&] { return file(name) != before; });
  }
  bool is_standing(const std::string& name) {
    const std::string before = file(name);
    turn(Millis{150});
    return file(name) == before;
  }
  Status set_frozen(bool is_frozen) {
    std::optional<Status> result;
    const auto take = [&result](Status status) { result = std::move(status); };
    if (is_frozen) {
      sup->freeze(take);
    } else {
      sup->thaw(take);
    }
    if (!wait([&] { return result.has_value(); })) return Error(Errc::kTimeout, "no answer");
    return *std::move(result);
  }
  std::optional<backend::ProcessInfo> process(int pid) const {
    const auto all = sup->processes();
    if (!all.ok()) return std::nullopt;
    for (const backend::ProcessInfo& each : all.value()) {
      if (each.pid == pid) return each;
    }
    return std::nullopt;
  }

  profile::Profile profile;
  Loop loop;
  AllowGate gate;
  std::map<uint32_t, End> ends;
  bool is_lasting = true;
  bool has_freezer = false;
  uint32_t tag = 0;  ///< of what start() starts
  std::unique_ptr<Supervisor> sup;

 private:
  test::WorkDir dir_{test::self()};
  std::vector<backend::ExecStreams> streams_;
};

/// Becomes a plain user for good.
inline bool become_user(const test::Identity& who) {
  ::setenv("HOME", who.home.c_str(), 1);
  ::unsetenv("XDG_RUNTIME_DIR");
  ::unsetenv("XDG_STATE_HOME");
  return ::setgroups(0, nullptr) == 0 && ::setresgid(who.gid, who.gid, who.gid) == 0 &&
         ::setresuid(who.uid, who.uid, who.uid) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

/// Runs a scenario in a child of its own, as root (where the test is root) and as a plain user.
inline void check_as_both(const std::function<Complaint()>& scenario) {
  const bool is_root = ::geteuid() == 0;
  const test::Identity user = test::test_user();
  for (const bool as_user : {false, true}) {
    if (!as_user && !is_root) continue;
    INFO((as_user ? "as a user" : "as root"));
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      Complaint complaint;
      if (as_user && is_root && !become_user(user)) {
        complaint = "become another user";
      } else {
        complaint = scenario();
      }
      if (complaint.has_value()) (void)!::write(ends[1], complaint->data(), complaint->size());
      ::_exit(complaint.has_value() ? 1 : 0);
    }
    ::close(ends[1]);
    std::string text(4096, '\0');
    const ssize_t size = ::read(ends[0], text.data(), text.size());
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    ::close(ends[0]);
    int status = -1;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    INFO(text);
    CHECK(status == 0);
  }
}

}  // namespace sbx::supervise
