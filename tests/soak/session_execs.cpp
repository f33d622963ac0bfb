// session_execs: many programs in one session: one after another, and 32 at once.
#include "tests/soak/session_execs.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/sessions.h"
#include "tests/support/leaks.h"

namespace sbx::test {
namespace {

/// Without doctest's macros: no test case runs here.
void start(const Sessions& sessions, const Args& flags) {
  Args args{"start", "s", "-p", "bash", "--set", "limits.timeout=unlimited"};
  args.insert(args.end(), flags.begin(), flags.end());
  const Outcome o = sessions.call(args);
  if (o.code == 0) return;
  std::printf("%s\n", o.show().c_str());
  std::exit(1);
}

}  // namespace

int run_in_a_row(int count) {
  const Sessions sessions;
  const LeakCheck reaper;
  start(sessions, {});
  const double begin = now();
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    const int status = i % 200;
    const Outcome o = sessions.call(
        {"exec",
         "s",
         "--",
         "sh",
         "-c",
         "printf 'out " + number + "'; printf err >&2; exit " + std::to_string(status)});
    if (o.code == status && o.out == "out " + number && o.err == "err") continue;
    ++wrong;
    std::printf("exec %d: %s\n", i, o.show().c_str());
  }
  const double seconds = now() - begin;
  int zombies = 0;
  for (const std::string& line : descendants()) {
    if (!contains(line, ") Z")) continue;
    ++zombies;
    std::printf("%s\n", line.c_str());
  }
  std::printf("%d execs in a row as %s, %.0f s (%.1f ms each): %d wrong, %d zombies\n",
              count,
              subject().name.c_str(),
              seconds,
              seconds * 1000 / count,
              wrong,
              zombies);
  return wrong == 0 && zombies == 0 ? 0 : 1;
}

int run_at_once(int megabytes) {
  constexpr int kPrograms = 32;
  constexpr int kLinesOfMegabyte = 1 << 17;  // of eight bytes
  const Sessions sessions;
  start(sessions, {"--output-limit", "unlimited"});
  const std::string code = "for ((i = 0; i < " + std::to_string(megabytes) +
                           "; ++i)); do seq 1000000 " +
                           std::to_string(1'000'000 + kLinesOfMegabyte - 1) + "; done";
  const Outcome want = run({.argv = {"/bin/bash", "-c", "{ " + code + "; } | sha256sum"}});
  Spec spec = sessions.spec({});
  spec.argv = {
      "/bin/sh", "-c", "\"$0\" session exec s -- bash -c \"$1\" | sha256sum", sbx_path(), code};
  spec.timeout = 1200;
  const double begin = now();
  std::vector<std::unique_ptr<Child>> all;
  for (int i = 0; i < kPrograms; ++i) {
    all.push_back(std::make_unique<Child>(spec));
  }
  int wrong = 0;
  for (const auto& child : all) {
    const Outcome o = child->wait();
    if (o.out == want.out && want.out.size() > 64) continue;
    ++wrong;
    std::printf("%s\n", o.show().c_str());
  }
  std::printf("%d execs at once with %d MiB each as %s, %.0f s: %d wrong\n",
              kPrograms,
              megabytes,
              subject().name.c_str(),
              now() - begin,
              wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace sbx::test
