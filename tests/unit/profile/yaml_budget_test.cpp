// Yaml budget test: input made to cost much costs little.
#include <sys/resource.h>

#include <string>
#include <vector>

#include "core/profile/yaml.h"

#include "tests/unit/profile/support.h"

using namespace sbx::profile;
using sbx::profile::test::kIsSlowBuild;

namespace {

std::string repeated(std::string_view piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) {
    out += piece;
  }
  return out;
}

std::string nested_block_maps(int levels) {
  std::string out;
  for (int i = 0; i < levels; ++i) {
    out += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  }
  return out;
}

std::string alias_ladder(int levels, int rungs) {
  std::string out = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i <= levels; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    out += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below;
    for (int j = 1; j < rungs; ++j) {
      out += ", " + below;
    }
    out += "]\n";
  }
  return out;
}

std::string alias_tower(int levels) {
  std::string out = "a0: &a0 [x]\n";
  for (int i = 1; i <= levels; ++i) {
    out += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
           "]\n";
  }
  return out;
}

double cpu_seconds(const rusage& usage) {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The first mistake, after checking that finding it took less than a second (of processor time:
/// tests run next to each other) and 100 MB.
std::string first_mistake(const std::string& text) {
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  Diagnostics diagnostics("t");
  static_cast<void>(parse_yaml(text, diagnostics));
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  CHECK(cpu_seconds(after) - cpu_seconds(before) < (kIsSlowBuild ? 10.0 : 1.0));
  if (!kIsSlowBuild) CHECK(after.ru_maxrss - before.ru_maxrss < 100 * 1024);
  const std::vector<Diagnostic> found = diagnostics.take();
  REQUIRE(!found.empty());
  return found[0].to_string();
}

bool ends_with(const std::string& text, std::string_view end) {
  return std::string_view(text).ends_with(end);
}

}  // namespace

TEST_CASE("yaml: 100,000 opening brackets are a clean error") {
  const std::string deep = "nested more than 16 levels deep";
  CHECK(ends_with(first_mistake(repeated("[", 100000)), deep));
  CHECK(ends_with(first_mistake("env: " + repeated("[", 100000)), deep));
  CHECK(ends_with(first_mistake(repeated("{a: ", 60000)), deep));
  CHECK(ends_with(first_mistake(repeated("[[],", 60000)), deep));
  CHECK(ends_with(first_mistake(repeated("[\n", 100000)), deep));
}

TEST_CASE("yaml: 100,000 nested block maps and lists are a clean error") {
  CHECK(ends_with(first_mistake(nested_block_maps(700)), "nested more than 16 levels deep"));
  CHECK(ends_with(first_mistake(repeated("? ", 100000)), "nested more than 16 levels deep"));
  CHECK(ends_with(first_mistake(repeated("- ", 100000)), "nested more than 16 levels deep"));
  CHECK(ends_with(first_mistake(repeated("a:\n ", 100000)), "this is no profile"));
}

TEST_CASE("yaml: an alias to what it stands in is an error that names it") {
  CHECK(first_mistake("env: &loop {A: *loop}\n") ==
        "t:1:16: alias *loop stands inside what it stands for");
  CHECK(first_mistake("a: &x\n  - b\n  - c: *x\n") ==
        "t:3:8: alias *x stands inside what it stands for");
}

TEST_CASE("yaml: a ladder of aliases is stopped at the budget and named") {
  const std::string nine = first_mistake(alias_ladder(9, 9));
  CHECK(nine.find("alias *a") != std::string::npos);
  CHECK(ends_with(nine, "the profile has more than 10000 values"));
  // Through depth instead of width.
  CHECK(ends_with(first_mistake(alias_tower(60)), "nested more than 16 levels deep"));
  CHECK(ends_with(first_mistake("a: &x 1\nb: [" + repeated("*x, ", 200) + "]\n"),
                  "more than 100 aliases"));
}

TEST_CASE("yaml: many values, many bytes and many mistakes are bounded") {
  CHECK(ends_with(first_mistake("env: [" + repeated("a,", 100000) + "]\n"),
                  "the profile has more than 10000 values"));
  CHECK(ends_with(first_mistake(repeated("# x\n", 100000)),
                  "larger than 256 KiB: this is no profile"));
  CHECK(ends_with(first_mistake(repeated("a: b: c\n", 30000)), "on the line above"));
  CHECK(first_mistake(repeated("a: 1\n", 4000)).find("duplicate key") != std::string::npos);
  CHECK(first_mistake(repeated("\xFF", 200000)).find("not UTF-8") != std::string::npos);
  CHECK(first_mistake(repeated("\x01", 200000)).find("invisible") != std::string::npos);
  CHECK(first_mistake(repeated("\t", 1) + repeated("x\n\t", 80000)).find("tab") !=
        std::string::npos);
  CHECK(first_mistake("a: \"" + repeated("x", 200000)).find("not closed") != std::string::npos);
}
