// batch_soak: a list of jobs of which one in twenty fails, its batch killed at random moments and
// gone on with: every job once, with its own result, and nothing left on the host.
//
//   batch_soak [--jobs N] [--kills K] [--seed S] [--slots J]     (SBX_TEST_AS=user: as that user)
//
// Of the kills every third is a SIGTERM. Prints what was wrong and a summary; exits with 1 when
// anything was wrong or left.
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#define DOCTEST_CONFIG_IMPLEMENT  // the support library reports through doctest
#include <doctest/doctest.h>

#include "tests/e2e/sbx.h"
#include "tests/soak/flags.h"
#include "tests/support/leaks.h"
#include "tests/support/user.h"

namespace sbx::test {
namespace {

struct Plan {
  int jobs = 2000;
  int kills = 12;
  int slots = 4;
  int seed = 1;
};

bool must_fail(int job) {
  constexpr int kOneIn = 20;
  return job % kOneIn == 7;
}

std::string list_of(int jobs) {
  std::string list;
  for (int i = 0; i < jobs; ++i) {
    const std::string number = std::to_string(i);
    list += R"({"id":"job-)" + number + R"(","profile":"bash","code":"echo )" + number +
            (must_fail(i) ? "; exit 9" : "") + "\"}\n";
  }
  return list;
}

/// Starts the batch and ends it at a random moment, unless it was faster.
void run_and_kill(const Spec& spec, double most, std::mt19937& random, int signo) {
  Child child(spec);
  constexpr unsigned kSteps = 1000;
  pause(most * static_cast<double>(random() % kSteps) / kSteps);
  child.kill(signo);
  const Outcome o = child.wait();
  if (o.code >= 0 && o.code != 128 + signo && o.code != 0 && o.code != 1) {
    std::printf("killed by %d: %s\n", signo, o.show().c_str());
  }
  pause(1);  // nothing lives longer than this
  for (const std::string& line : descendants()) {
    if (line.find(") Z") == std::string::npos) std::printf("survived: %s\n", line.c_str());
  }
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // adopted from the killed one
  }
}

/// Lines of the results that are not what they have to be, and jobs without one.
int check_results(const std::string& text, int jobs) {
  std::map<std::string, int> seen;
  int wrong = 0;
  for (const std::string& line : lines_of(text)) {
    const std::string id = field(line, "/job");
    const int number = id.starts_with("job-") ? std::atoi(id.c_str() + 4) : -1;
    const bool is_right = number >= 0 && number < jobs && ++seen[id] == 1 &&
                          field(line, "/cause") == "exited" &&
                          field(line, "/exit_code") == (must_fail(number) ? "9" : "0") &&
                          field(line, "/stdout") == std::to_string(number) + "\n" &&
                          field(line, "/line") == std::to_string(number + 1);
    if (is_right) continue;
    ++wrong;
    std::printf("wrong: %s\n", line.substr(0, 400).c_str());
  }
  const int missing = jobs - static_cast<int>(seen.size());
  if (missing != 0) std::printf("%d jobs have no result\n", missing);
  return wrong + missing;
}

int soak(const Plan& plan) {
  if (bash("true").code != 0) {  // makes what is made once
    std::printf("batch_soak: not even one run works: %s\n", bash("true").show().c_str());
    return 1;
  }
  int wrong = 0;
  std::vector<std::string> left;
  const double begin = now();
  {
    const WorkDir dir;
    const LeakCheck check;
    const std::string list = dir.write("jobs.jsonl", list_of(plan.jobs));
    const std::string file = dir.at("results.jsonl");
    Spec spec =
        sbx_spec({"batch", list, "-j", std::to_string(plan.slots), "--results", file, "--resume"});
    constexpr double kPerJob = 0.006;
    const double most = kPerJob * plan.jobs / plan.kills;
    std::mt19937 random(static_cast<unsigned>(plan.seed));
    for (int i = 0; i < plan.kills; ++i) {
      run_and_kill(spec, most, random, i % 3 == 2 ? SIGTERM : SIGKILL);
    }
    spec.timeout = 1200;
    const Outcome last = run(spec);
    if (last.code != 1) {
      ++wrong;
      std::printf("the last one: %s\n", last.show().c_str());
    }
    wrong += check_results(slurp(file), plan.jobs);
    left = check.left(5);
  }
  std::printf("%d jobs as %s, %d kills, seed %d, %d at a time, %.0f s: %d wrong, %zu left\n%s",
              plan.jobs,
              subject().name.c_str(),
              plan.kills,
              plan.seed,
              plan.slots,
              now() - begin,
              wrong,
              left.size(),
              joined(left).c_str());
  return wrong == 0 && left.empty() ? 0 : 1;
}

}  // namespace
}  // namespace sbx::test

int main(int argc, char** argv) {
  sbx::test::Plan plan;
  const bool is_good =
      sbx::test::read_flags(argc,
                            argv,
                            {{"--jobs", &plan.jobs},
                             {"--kills", &plan.kills},
                             {"--slots", &plan.slots},
                             {"--seed", &plan.seed}},
                            "batch_soak [--jobs N] [--kills K] [--seed S] [--slots J]");
  return is_good ? sbx::test::soak(plan) : 2;
}
