// pause test: a sandbox's payload stands still and goes on, by a freezer and by the agent.
#include <csignal>
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/supervise/box.h"

namespace sbx::supervise {

namespace {

/// A supervisor that pauses its sandbox, writes the host's numbers of the processes inside and a 0
/// to `fd`, and is killed.
[[noreturn]] void pause_and_die(int fd) {
  std::vector<pid_t> pids;
  Box box;
  if (!box.open()) {
    box.start_counter("n");
    (void)box.wait_for_file("n");
    (void)box.set_frozen(true);
    const auto all = box.sup->processes();
    for (const auto& process : all.value()) {
      pids.push_back(process.host_pid);
    }
  }
  pids.push_back(0);
  (void)!::write(fd, pids.data(), pids.size() * sizeof(pid_t));
  ::raise(SIGKILL);
  ::_exit(1);
}

bool was_killed(const Box::End& end) {
  return WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL;
}

}  // namespace

TEST_CASE("pause: a program stands still, and goes on where it was") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    const uint32_t id = box.start_counter("n");
    BOX_CHECK(box.wait_for_file("n"));
    for (int round = 0; round < 3; ++round) {
      BOX_OK(box.set_frozen(true));
      BOX_CHECK(box.sup->is_frozen());
      BOX_CHECK(box.is_standing("n"));
      BOX_OK(box.set_frozen(true));
      BOX_OK(box.set_frozen(false));
      BOX_CHECK(!box.sup->is_frozen());
      BOX_CHECK(box.is_moving("n"));
      BOX_OK(box.set_frozen(false));
    }
    BOX_CHECK(!box.ends.contains(id));
    return {};
  });
}

TEST_CASE("pause: requests are carried out in their order") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    box.start_counter("n");
    BOX_CHECK(box.wait_for_file("n"));
    std::string order;
    const auto note = [&order](char c) {
      return [&order, c](const Status& status) { order += status.ok() ? c : '!'; };
    };
    box.sup->freeze(note('a'));
    box.sup->thaw(note('b'));
    box.sup->freeze(note('c'));
    box.sup->freeze(note('d'));
    BOX_CHECK(box.wait([&] { return order.size() == 4; }));
    BOX_CHECK(order == "abcd");
    BOX_CHECK(box.is_standing("n"));
    return {};
  });
}

TEST_CASE("pause: what was stopped before stays stopped after it") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    box.start("sleep 1000 & kill -STOP $!; echo $! > pid; exec sleep 2000");
    box.start_counter("n");
    BOX_CHECK(box.wait_for_file("pid"));
    BOX_CHECK(box.wait_for_file("n"));
    const int pid = std::stoi(box.file("pid"));
    const auto state = [&box, pid] {
      const auto process = box.process(pid);
      return process ? process->state : '?';
    };
    BOX_CHECK(box.wait([&] { return state() == 'T'; }));
    BOX_OK(box.set_frozen(true));
    BOX_OK(box.set_frozen(false));
    BOX_CHECK(box.is_moving("n"));
    BOX_CHECK(state() == 'T');
    BOX_CHECK(box.run("kill -CONT " + std::to_string(pid)).has_value());
    BOX_CHECK(box.wait([&] { return state() == 'S'; }));
    return {};
  });
}

TEST_CASE("pause: SIGCONT to a paused exec is delivered when it goes on") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    const uint32_t id = box.start("kill -STOP $$; echo on > on; exec sleep 1000");
    BOX_CHECK(box.wait([&] {
      const auto all = box.sup->processes();
      return all.ok() && all.value().size() == 1 && all.value().front().state == 'T';
    }));
    BOX_OK(box.set_frozen(true));
    BOX_CHECK(box.sup->signal(id, SIGCONT).ok());
    box.turn(Millis{100});
    BOX_CHECK(box.file("on").empty());
    BOX_OK(box.set_frozen(false));
    BOX_CHECK(box.wait_for_file("on"));
    return {};
  });
}

TEST_CASE("pause: SIGKILL ends one program of a paused sandbox, and the others do not move") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    const uint32_t victim = box.start("sleep 1000; echo lived > lived");
    box.start_counter("n");
    BOX_CHECK(box.wait_for_file("n"));
    BOX_CHECK(box.wait([&] { return box.sup->processes().value().size() >= 3; }));
    BOX_OK(box.set_frozen(true));
    const std::string before = box.file("n");
    BOX_CHECK(box.sup->signal(victim, SIGKILL).ok());
    BOX_CHECK(box.wait([&] { return box.ends.contains(victim); }));
    BOX_CHECK(was_killed(box.ends[victim]));
    BOX_CHECK(box.file("n") == before);
    BOX_CHECK(box.sup->is_frozen());
    BOX_OK(box.set_frozen(false));
    BOX_CHECK(box.is_moving("n"));
    BOX_CHECK(box.file("lived").empty());
    return {};
  });
}

TEST_CASE("pause: a program that is started meanwhile runs afterwards") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    BOX_CHECK(box.run("true").has_value());
    BOX_OK(box.set_frozen(true));
    const uint32_t id = box.start("echo ran > ran");
    box.turn(Millis{100});
    BOX_CHECK(!box.ends.contains(id));
    BOX_OK(box.set_frozen(false));
    BOX_CHECK(box.wait([&] { return box.ends.contains(id); }));
    BOX_CHECK(box.ends[id].status == 0);
    BOX_CHECK(box.file("ran") == "ran");
    return {};
  });
}

TEST_CASE("pause: many processes that fork all the time stand still, all of them") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    for (int i = 0; i < 4; ++i) {
      box.start("while :; do (echo $$ >> many); done");
    }
    BOX_CHECK(box.wait_for_file("many"));
    BOX_OK(box.set_frozen(true));
    BOX_CHECK(box.is_standing("many"));
    BOX_OK(box.set_frozen(false));
    BOX_CHECK(box.is_moving("many"));
    return {};
  });
}

TEST_CASE("pause: the parent of a vfork and a traced program stand still, and go on") {
  SKIP_UNLESS("userns");
  SKIP_UNLESS("python");
  check_as_both([]() -> Complaint {
    OPEN(box);
    // vfork(2) is call 58 of x86-64: the parent sleeps in the kernel as long as the child lives.
    box.start(
        "exec python3 -c 'import ctypes, time\n"
        "ctypes.CDLL(None).syscall(58)\n"
        "open(\"forked\", \"w\").write(\"x\")\n"
        "while True: time.sleep(1)'");
    // PTRACE_TRACEME is 0, PTRACE_SYSCALL 24: a child that is stopped at every call.
    box.start(
        "exec python3 -c 'import ctypes, os, signal\n"
        "p = ctypes.CDLL(None).ptrace\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "  p(0, 0, 0, 0)\n"
        "  os.kill(os.getpid(), signal.SIGSTOP)\n"
        "  n = 0\n"
        "  while True:\n"
        "    n += 1\n"
        "    open(\".traced\", \"w\").write(str(n))\n"
        "    os.rename(\".traced\", \"traced\")\n"
        "os.waitpid(pid, 0)\n"
        "while True:\n"
        "  p(24, pid, 0, 0)\n"
        "  os.waitpid(pid, 0)'");
    BOX_CHECK(box.wait_for_file("forked"));
    BOX_CHECK(box.wait_for_file("traced"));
    for (int round = 0; round < 3; ++round) {
      BOX_OK(box.set_frozen(true));
      BOX_CHECK(box.is_standing("traced"));
      BOX_OK(box.set_frozen(false));
      BOX_CHECK(box.is_moving("traced"));
    }
    BOX_OK(box.set_frozen(true));
    const std::int64_t start = monotonic_now().v;
    BOX_CHECK(box.sup->shutdown().ok());
    BOX_CHECK(monotonic_now().v - start < 2000);
    return {};
  });
}

TEST_CASE("pause: a paused sandbox is ended within two seconds and leaves nothing") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    box.start_counter("n");
    BOX_CHECK(box.wait_for_file("n"));
    BOX_OK(box.set_frozen(true));
    const auto before = box.sup->processes();
    BOX_CHECK(before.ok() && !before.value().empty());
    const std::int64_t start = monotonic_now().v;
    BOX_CHECK(box.sup->shutdown().ok());
    BOX_CHECK(monotonic_now().v - start < 2000);
    for (const backend::ProcessInfo& process : before.value()) {
      BOX_CHECK(::kill(process.host_pid, 0) != 0);
    }
    const auto layout = confine::probe_cgroups();
    BOX_CHECK(layout.ok() && confine::find_stale_cgroups(layout.value()).empty());
    return {};
  });
}

TEST_CASE("pause: what a killed supervisor leaves paused is gone after the next look") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    int ends[2];
    BOX_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    if (child == 0) pause_and_die(ends[1]);
    ::close(ends[1]);
    std::vector<pid_t> pids(64, 0);
    const ssize_t size = ::read(ends[0], pids.data(), pids.size() * sizeof(pid_t));
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    BOX_CHECK(size >= static_cast<ssize_t>(2 * sizeof(pid_t)));
    pids.resize(static_cast<std::size_t>(size) / sizeof(pid_t) - 1);
    const auto layout = confine::probe_cgroups();
    BOX_CHECK(layout.ok());
    (void)confine::reap_stale_cgroups(layout.value());
    // Without groups it is the kernel that ends them, in its own time.
    const std::int64_t end = monotonic_now().v + 10'000;
    for (const pid_t pid : pids) {
      while (::kill(pid, 0) == 0 && monotonic_now().v < end) {
        ::usleep(1000);
      }
      BOX_CHECK(::kill(pid, 0) != 0);
    }
    for (const auto& stale : confine::find_stale_cgroups(layout.value())) {
      BOX_CHECK(stale.pid != child);
    }
    return {};
  });
}

}  // namespace sbx::supervise
