// Argv test: cutting at `--`, values that are missing or empty, roles.
#include "cli/argv.h"

#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/verbs.h"

using sbx::cli::Argv;
using sbx::cli::kRunVerb;
using sbx::cli::prepare;
using sbx::cli::role_of;
using sbx::cli::split;
using Words = std::vector<std::string>;

TEST_CASE("argv: everything behind the first -- stays as it is, further -- included") {
  Words words = {"-m", "1G", "--", "--help", "", "--", "-v", "\xff\n", " a 'b\""};
  Argv cut = split(words);
  CHECK(cut.ours == Words{"-m", "1G"});
  CHECK(cut.has_rest);
  CHECK(cut.rest == Words{"--help", "", "--", "-v", "\xff\n", " a 'b\""});
}

TEST_CASE("argv: no -- and -- with nothing behind it are told apart") {
  CHECK_FALSE(split(Words{"a"}).has_rest);
  Argv cut = split(Words{"--"});
  CHECK(cut.has_rest);
  CHECK(cut.rest.empty());
  CHECK(cut.ours.empty());
  CHECK_FALSE(split(Words{}).has_rest);
}

TEST_CASE("argv: --name= becomes two words, so that the empty value is one") {
  CHECK(prepare(kRunVerb, {"--env=", "a.py"}).value() == Words{"--env", "", "a.py"});
  CHECK(prepare(kRunVerb, {"--env=A=", "a.py"}).value() == Words{"--env=A=", "a.py"});
  CHECK(prepare(kRunVerb, {"--json=", "a.py"}).value() == Words{"--json=", "a.py"});
  // a value that looks like it is a value
  CHECK(prepare(kRunVerb, {"-c", "--env=", "--env="}).value() ==
        Words{"-c", "--env=", "--env", ""});
}

TEST_CASE("argv: words behind FILE are not looked at") {
  CHECK(prepare(kRunVerb, {"a.py", "--env=", "-m"}).value() == Words{"a.py", "--env=", "-m"});
  CHECK(prepare(kRunVerb, {"-", "-m"}).value() == Words{"-", "-m"});
}

TEST_CASE("argv: a flag without its value is named") {
  struct Row {
    Words words;
    std::string message;
  };
  const std::array rows = {
      Row{{"-m"}, "-m/--memory needs a value: SIZE"},
      Row{{"--memory"}, "-m/--memory needs a value: SIZE"},
      Row{{"-qm"}, "-m/--memory needs a value: SIZE"},
      Row{{"--json", "--timeout"}, "--timeout needs a value: TIME"},
      Row{{"-c"}, "-c/--code needs a value: CODE"},
  };
  for (const Row& row : rows) {
    auto words = prepare(kRunVerb, row.words);
    REQUIRE_FALSE(words.ok());
    CHECK(words.error().message() == row.message);
    CHECK(words.error().code() == sbx::Errc::kUsage);
  }
}

TEST_CASE("argv: only exact names in the first two words are roles") {
  auto role = [](std::vector<const char*> argv) { return std::string(role_of(argv)); };
  CHECK(role({"internal-jail-init"}) == "internal-jail-init");
  CHECK(role({"sbx", "internal-jail-init"}) == "internal-jail-init");
  CHECK(role({"/x/internal-jail-init"}).empty());
  CHECK(role({"sbx", "run", "internal-jail-init"}).empty());
  CHECK(role({"sbx", "internal-jail-initx"}).empty());
  CHECK(role({}).empty());
}
