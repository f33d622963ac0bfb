// Parser test: what the parser library makes of one verb's words, and what is said about mistakes.
#include "cli/parser.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/verbs.h"

using namespace sbx::cli;  // NOLINT(google-build-using-namespace): a test of this namespace
using Lines = std::vector<std::string>;

namespace {

sbx::Result<Invocation> parse_run(const Lines& words) {
  return parse(kRunVerb, split(words));
}

std::string message_of(const sbx::Result<Invocation>& result) {
  return result.ok() ? "(no error)" : result.error().message();
}
std::string hint_of(const sbx::Result<Invocation>& result) {
  return result.ok() ? "(no error)" : result.error().hint();
}

}  // namespace

TEST_CASE("parser: values come through as bytes, whatever they look like") {
  const Lines odd = {"",     "-1",   "--",    "--json",    "[a,b]", "a,b",  "=x",
                     "a=b=", "{}",   "%%",    "\xff\xfe",  "\n",    "'\"",  "[]",
                     "+",    "true", "-m=1G", "--memory=", " ",     "\\x41"};
  for (const std::string& value : odd) {
    CAPTURE(value);
    if (value != "--") {  // the first -- always ends our flags
      auto apart = parse_run({"-e", value, "-q", "x.py"});
      REQUIRE_MESSAGE(apart.ok(), message_of(apart));
      CHECK(apart.value().all("env") == Lines{value});
      CHECK(apart.value().has("quiet"));
    }
    auto joined = parse_run({"--env=" + value, "-q", "x.py"});
    REQUIRE_MESSAGE(joined.ok(), message_of(joined));
    CHECK(joined.value().all("env") == Lines{value});
    CHECK(joined.value().has("quiet"));
  }
}

TEST_CASE("parser: repeatable flags keep order, others take the last, letters cluster") {
  auto result = parse_run({"-e", "A=1", "-m", "1G", "--env=B=2", "-m2G", "-qt", "-eC", "x.py"});
  REQUIRE_MESSAGE(result.ok(), message_of(result));
  const Invocation& given = result.value();
  CHECK(given.all("env") == Lines{"A=1", "B=2", "C"});
  CHECK(*given.last("memory") == "2G");
  CHECK(given.has("quiet"));
  CHECK(given.has("tty"));
  CHECK_FALSE(given.has("json"));
  CHECK(given.last("timeout") == nullptr);
  CHECK(given.words() == Lines{"x.py"});
}

TEST_CASE("parser: from FILE on, all words are the script's") {
  auto result = parse_run({"-q", "a.py", "-q", "--help", "--memroy", "-m", "", "b"});
  REQUIRE_MESSAGE(result.ok(), message_of(result));
  CHECK(result.value().words() == Lines{"a.py", "-q", "--help", "--memroy", "-m", "", "b"});
  CHECK_FALSE(result.value().has("help"));
  auto dash = parse_run({"-", "-x"});
  REQUIRE(dash.ok());
  CHECK(dash.value().words() == Lines{"-", "-x"});
}

TEST_CASE("parser: a FILE named like a verb or a flag's value is a FILE") {
  for (const char* name : {"run", "help", "version", "profile", "jail", "=", "++", "/x"}) {
    auto result = parse_run({name});
    REQUIRE(result.ok());
    CHECK(result.value().words() == Lines{name});
  }
}

TEST_CASE("parser: mistakes name the flag and what was meant") {
  struct Row {
    Lines words;
    std::string message;
    std::string hint;
  };
  const std::vector<Row> rows = {
      {{"--memroy", "1G", "x.py"}, "unknown flag --memroy for sbx run", "did you mean --memory?"},
      {{"--memroy=1G"}, "unknown flag --memroy for sbx run", "did you mean --memory?"},
      {{"--mem", "1G"}, "unknown flag --mem for sbx run", "see sbx run --help"},
      {{"-x", "x.py"}, "unknown flag -x for sbx run", "see sbx run --help"},
      {{"-qx"}, "unknown flag -x for sbx run", "see sbx run --help"},
      {{"-5"}, "unknown flag -5 for sbx run", "see sbx run --help"},
      {{"-!"}, "unknown flag -! for sbx run", "see sbx run --help"},
      {{"---"}, "unknown flag --- for sbx run", "see sbx run --help"},
      {{"--\x1b[31m"}, "unknown flag --\\x1b[31m for sbx run", "see sbx run --help"},
      {{"--json=1x"}, "--json takes no value", ""},
      {{"--json=false"}, "--json takes no value", ""},
      {{"-c", "1", "-c", "2"}, "-c/--code is given twice", ""},
      {{"--isolation", "vmm"},
       "--isolation: \"vmm\" is not one of jail, vm, auto",
       "did you mean vm?"},
      {{"--log-level=loud"},
       "--log-level: \"loud\" is not one of trace, debug, info, warn, error, off",
       ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.words[0]);
    auto result = parse_run(row.words);
    CHECK(message_of(result) == row.message);
    CHECK(hint_of(result) == row.hint);
    if (!result.ok()) CHECK(result.error().code() == sbx::Errc::kUsage);
  }
}

TEST_CASE("parser: words of other verbs are counted, flags may stand behind them") {
  auto result = parse(kProfileExplainVerb, split(Lines{"python", "--json"}));
  REQUIRE(result.ok());
  CHECK(result.value().has("json"));
  CHECK(result.value().words() == Lines{"python"});
  CHECK(message_of(parse(kProfileShowVerb, {})) == "sbx profile show needs PROFILE");
  CHECK(message_of(parse(kProfileShowVerb, split(Lines{"a", "b"}))) ==
        "unexpected word \"b\" after sbx profile show");
  CHECK(message_of(parse(kVersionVerb, split(Lines{"x"}))) ==
        "unexpected word \"x\" after sbx version");
  CHECK(message_of(parse(kVersionVerb, split(Lines{"--", "x"}))) == "sbx version takes no --");
}

TEST_CASE("parser: --help wins over words that are missing") {
  auto result = parse(kProfileShowVerb, split(Lines{"-h"}));
  REQUIRE(result.ok());
  CHECK(result.value().has("help"));
  CHECK(parse_run({"-q", "--help", "x.py"}).value().has("help"));
}
