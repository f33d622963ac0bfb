// soak: many runs of mixed outcomes, some at a time; each status and cause checked, then the host.
//
//   soak [--runs N] [--seed S] [--jobs J]        (SBX_TEST_AS=user: as the unprivileged user)
//
// Prints one line per wrong run and a summary; exits with 1 when anything was wrong or left.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#define DOCTEST_CONFIG_IMPLEMENT  // the support library reports through doctest
#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/soak/flags.h"
#include "tests/support/leaks.h"
#include "tests/support/skip.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

struct Kind {
  std::string name;
  Args args;
  int code = 0;
  std::string cause;
  size_t output = 0;
  int weight = 1;
};

std::vector<Kind> kinds() {
  const std::string bomb =
      "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.01)\n";
  const std::string eater = "x = b'x' * (1 << 30)\nprint(len(x))\n";
  const std::string stubborn = "trap '' TERM; (setsid sleep 99 &); while :; do sleep 1; done";
  std::vector<Kind> out{
      {"ok", bash_args("echo ok"), 0, "exited", 3, 6},
      {"exit 7", bash_args("exit 7"), 7, "exited", 0, 4},
      {"abort", bash_args("kill -ABRT $$"), 134, "signal", 0, 3},
      {"time-out", bash_args("sleep 60", {"--timeout", "1s"}), 124, "timeout", 0, 2},
      {"stubborn time-out", bash_args(stubborn, {"--timeout", "1s"}), 124, "timeout", 0, 1},
      {"not found", command_args({"no-such-program"}), 127, "exited", 0, 3},
      {"fork bomb", python_args(bomb, {"--timeout", "2s"}), 124, "timeout", 0, 1},
      {"50 MB output",
       bash_args("head -c 52428800 /dev/zero", {"--set", "limits.output=64M"}),
       0,
       "exited",
       52428800,
       2}};
  if (have("cgroup-memory")) {
    out.push_back({"out of memory", python_args(eater, {"-m", "64M"}), 137, "oom", 0, 2});
  } else {  // the address space limit stands in: the allocation is refused
    out.push_back({"out of memory", python_args(eater), 1, "exited", 0, 2});
  }
  return out;
}

/// One run in flight, with the memory file that its --status-fd writes to.
struct Run {
  const Kind* kind = nullptr;
  int status_fd = -1;
  std::unique_ptr<Child> child;
};

Run start(const Kind& kind) {
  Run run;
  run.kind = &kind;
  run.status_fd = ::memfd_create("sbx-soak", 0);
  Spec spec = sbx_spec(kind.args);
  spec.argv.insert(spec.argv.begin() + 2, {"--status-fd", std::to_string(run.status_fd)});
  spec.keep = {run.status_fd};
  spec.timeout = 120;
  run.child = std::make_unique<Child>(spec);
  return run;
}

std::string read_status(int fd) {
  std::string text(16384, '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  ::close(fd);
  return text;
}

/// False, with a line about it, when the run ended in any way but its kind's.
bool finish(Run& run, int number) {
  const Outcome o = run.child->wait();
  const std::string status = read_status(run.status_fd);
  const std::string cause = field(status, "/cause");
  const bool right = o.code == run.kind->code && cause == run.kind->cause && !o.timed_out &&
                     o.out.size() == run.kind->output;
  if (!right) {
    std::printf(
        "run %d (%s): want status %d, cause %s, %zu bytes; got %d, %s, %zu bytes\n  stderr: "
        "%s\n  status: %s\n",
        number,
        run.kind->name.c_str(),
        run.kind->code,
        run.kind->cause.c_str(),
        run.kind->output,
        o.code,
        cause.c_str(),
        o.out.size(),
        o.err.substr(0, 500).c_str(),
        status.substr(0, 500).c_str());
  }
  return right;
}

struct Plan {
  int runs = 1000;
  int jobs = 4;
  int seed = 1;
};

int soak(const Plan& plan) {
  if (bash("true").code != 0) {  // makes what is made once
    std::printf("soak: not even one run works: %s\n", bash("true").show().c_str());
    return 1;
  }
  const LeakCheck check;
  const std::vector<Kind> all = kinds();
  std::vector<size_t> deck;
  for (size_t i = 0; i < all.size(); ++i) {
    deck.insert(deck.end(), static_cast<size_t>(all[i].weight), i);
  }
  std::mt19937 random(static_cast<unsigned>(plan.seed));
  std::vector<Run> flying;
  std::map<std::string, int> counts;
  int wrong = 0;
  int started = 0;
  int ended = 0;
  const double begin = now();
  while (ended < plan.runs) {
    while (started < plan.runs && flying.size() < static_cast<size_t>(plan.jobs)) {
      // The first runs go through every kind once; the rest are drawn.
      const size_t pick = static_cast<size_t>(started) < all.size() ? static_cast<size_t>(started)
                                                                    : deck[random() % deck.size()];
      flying.push_back(start(all[pick]));
      ++counts[all[pick].name];
      ++started;
    }
    // Waiting for the oldest keeps the others' pipes full for a while: that is part of the storm.
    wrong += finish(flying.front(), ended) ? 0 : 1;
    flying.erase(flying.begin());
    ++ended;
  }
  const std::vector<std::string> left = check.left(5);
  std::printf("%d runs as %s, seed %d, %d at a time, %.0f s:",
              plan.runs,
              subject().name.c_str(),
              plan.seed,
              plan.jobs,
              now() - begin);
  for (const auto& [name, count] : counts) {
    std::printf(" %d %s,", count, name.c_str());
  }
  std::printf(" %d wrong, %zu left\n%s", wrong, left.size(), joined(left).c_str());
  return wrong == 0 && left.empty() ? 0 : 1;
}

}  // namespace
}  // namespace sbx::test

int main(int argc, char** argv) {
  sbx::test::Plan plan;
  const bool is_good = sbx::test::read_flags(
      argc,
      argv,
      {{"--runs", &plan.runs}, {"--jobs", &plan.jobs}, {"--seed", &plan.seed}},
      "soak [--runs N] [--seed S] [--jobs J]");
  return is_good ? sbx::test::soak(plan) : 2;
}
