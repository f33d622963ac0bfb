// processes test: what runs in a sandbox, what it uses, and as whom.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>

#include <doctest/doctest.h>

#include "tests/unit/supervise/box.h"

namespace sbx::supervise {

namespace {

/// Of fifty execs one after the other.
std::int64_t median_us(Box& box) {
  std::vector<std::int64_t> ns;
  for (int i = 0; i < 50; ++i) {
    const std::int64_t start = monotonic_ns();
    const uint32_t id = box.start("exec true");
    while (!box.ends.contains(id)) {
      box.step();
    }
    ns.push_back(monotonic_ns() - start);
  }
  std::sort(ns.begin(), ns.end());
  return ns[ns.size() / 2] / 1000;
}

}  // namespace

TEST_CASE("processes: each with its numbers inside, its exec, its command line and its user") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    const uint32_t first = box.start("exec sleep 1111");
    box.tag = 77;
    box.start("sleep 2222 & wait");
    const uint32_t second = 77;
    std::vector<backend::ProcessInfo> all;
    BOX_CHECK(box.wait([&] {
      auto now = box.sup->processes();
      if (now.ok()) all = std::move(now).value();
      return all.size() == 3 && all[0].command == "sleep 1111" && all[2].command == "sleep 2222" &&
             all[2].exec_id.has_value() && all[0].exec_id.has_value();
    }));
    BOX_CHECK(all[0].exec_id == first);
    BOX_CHECK(all[0].parent == 1);
    BOX_CHECK(all[1].exec_id == second);
    BOX_CHECK(all[1].command.starts_with("/bin/sh -c sleep 2222"));
    BOX_CHECK(all[2].exec_id == second);
    BOX_CHECK(all[2].parent == all[1].pid);
    for (const backend::ProcessInfo& each : all) {
      BOX_CHECK(each.uid == 1000);
      BOX_CHECK(each.pid > 1 && each.pid < 100);
      BOX_CHECK(each.host_pid != each.pid);
      BOX_CHECK(std::string("RSD").find(each.state) != std::string::npos);
      BOX_CHECK(each.memory > 0);
      BOX_CHECK(each.started_ns > 0);
    }
    return {};
  });
}

TEST_CASE("processes: any bytes in a command line, cut at a limit; orphans and zombies") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    // The shell ends, its child stays and belongs to PID 1; its exec is still known.
    const auto end = box.run("(exec sleep 3333) & exec true");
    BOX_CHECK(end.has_value() && end->status == 0);
    box.start("exec tail -f /dev/null \"$(printf '\\033[2J\\377%09000d' 0)\"");
    std::vector<backend::ProcessInfo> all;
    BOX_CHECK(box.wait([&] {
      auto now = box.sup->processes();
      if (now.ok()) all = std::move(now).value();
      return all.size() == 2 && all[0].command == "sleep 3333" &&
             all[1].command.starts_with("tail -f");
    }));
    BOX_CHECK(all[1].command.starts_with("tail -f /dev/null \033[2J\377000"));
    BOX_CHECK(all[0].parent == 1);
    BOX_CHECK(all[0].exec_id.has_value());
    BOX_CHECK(all[1].command.size() == backend::kMaxCommand);
    return {};
  });
}

TEST_CASE("processes and usage: a paused sandbox tells them as well") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    box.start_counter("n");
    BOX_CHECK(box.wait_for_file("n"));
    // Without a group CPU time is counted in ticks of 10 ms.
    BOX_CHECK(box.wait([&] { return box.sup->usage().value().cpu_ns.value_or(0) > 0; }));
    BOX_OK(box.set_frozen(true));
    const auto all = box.sup->processes();
    BOX_CHECK(all.ok() && !all.value().empty());
    const auto used = box.sup->usage();
    BOX_CHECK(used.ok());
    BOX_CHECK(used.value().processes == all.value().size());
    BOX_CHECK(used.value().cpu_ns.value_or(0) > 0);
    BOX_CHECK(used.value().memory.value_or(0) > 0);
    BOX_CHECK(used.value().is_summed == !box.has_freezer);
    BOX_CHECK(box.sup->usage().value().cpu_ns.value_or(0) - *used.value().cpu_ns < 1'000'000'000);
    return {};
  });
}

TEST_CASE("usage: memory that a program takes is seen, and its peak after it gave it back") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    const auto before = box.sup->usage();
    BOX_CHECK(before.ok());
    const uint32_t id = box.start("x=$(head -c 50000000 /dev/zero | tr '\\0' x); sleep 1000");
    BOX_CHECK(box.wait([&] {
      const auto now = box.sup->usage();
      return now.ok() &&
             now.value().memory.value_or(0) > before.value().memory.value_or(0) + 40'000'000;
    }));
    BOX_CHECK(box.sup->signal(id, SIGKILL).ok());
    BOX_CHECK(box.wait([&] { return box.ends.contains(id); }));
    const auto after = box.sup->usage();
    BOX_CHECK(after.ok());
    if (after.value().memory_peak.has_value()) BOX_CHECK(*after.value().memory_peak > 40'000'000);
    return {};
  });
}

TEST_CASE("exec: cost of a program in a lasting sandbox (printed, not judged)") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    for (const bool is_lasting : {false, true}) {
      Box box;
      box.is_lasting = is_lasting;
      if (Complaint said = box.open(); said) return said;
      const auto median = static_cast<long long>(median_us(box));
      std::fprintf(
          stderr, "exec: median %lld us%s\n", median, is_lasting ? ", lasting" : ", one-shot");
    }
    return {};
  });
}

TEST_CASE("exec: another user than the job's, where a range of ids is mapped") {
  SKIP_UNLESS("userns");
  check_as_both([]() -> Complaint {
    OPEN(box);
    const auto usual = box.run("test $(id -u):$(id -g) = 1000:1000", backend::User{1000, 1000});
    BOX_CHECK(usual.has_value() && !usual->error.has_value() && usual->status == 0);
    const auto other = box.run(
        "test $(id -u):$(id -g):$(id -G) = 4321:1234:1234 && echo x > /dev/stdout && "
        "echo x > /dev/stderr",
        backend::User{4321, 1234});
    BOX_CHECK(other.has_value());
    if (::geteuid() != 0) {
      BOX_CHECK(other->error.has_value());
      BOX_CHECK(other->error->message().find("not started by root") != std::string::npos);
      return {};
    }
    BOX_CHECK(!other->error.has_value() && other->status == 0);
    // 0 of the sandbox has no rights of root.
    const auto zero = box.run(
        "test $(id -u) = 0 && grep -q 'CapEff:.0000000000000000' /proc/self/status && "
        "grep -q 'CapBnd:.0000000000000000' /proc/self/status && "
        "! touch /etc/x 2>/dev/null && ! ls /proc/1/fd 2>/dev/null",
        backend::User{0, 0});
    BOX_CHECK(zero.has_value() && !zero->error.has_value() && zero->status == 0);
    const auto outside = box.run("true", backend::User{70000, 0});
    BOX_CHECK(outside.has_value() && outside->error.has_value());
    return {};
  });
}

}  // namespace sbx::supervise
