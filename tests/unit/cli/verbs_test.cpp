// Verbs test: the table is sound, and words find their row or a useful sentence.
#include "cli/verbs.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/parser.h"

using namespace sbx::cli;  // NOLINT(google-build-using-namespace): a test of this namespace
using Lines = std::vector<std::string>;

TEST_CASE("verbs: each row has a name, a summary, usage, an example and a function") {
  std::set<std::string_view> names;
  for (const Verb* verb : verbs()) {
    CAPTURE(verb->name);
    CHECK(names.insert(verb->name).second);
    CHECK_FALSE(verb->summary.empty());
    CHECK(verb->summary.size() < 70);
    CHECK_FALSE(verb->usage.empty());
    CHECK_FALSE(verb->examples.empty());
    CHECK((verb->run != nullptr));
    for (std::string_view usage : verb->usage) {
      CHECK(usage.starts_with("sbx " + std::string(verb->name)));
    }
    for (const Example& example : verb->examples) {
      CHECK(example.command.find("sbx " + std::string(verb->name)) != std::string_view::npos);
      CHECK_FALSE(example.what.empty());
    }
  }
}

TEST_CASE("verbs: flags of a row have distinct names and letters, and a help text") {
  for (const Verb* verb : verbs()) {
    std::set<std::string_view> names = {kHelpFlag.name};
    std::set<char> letters = {kHelpFlag.letter};
    for (const Flag& flag : verb->flags) {
      CAPTURE(flag.name);
      CHECK(names.insert(flag.name).second);
      if (flag.letter != '\0') CHECK(letters.insert(flag.letter).second);
      CHECK_FALSE(flag.help.empty());
      CHECK_FALSE(flag.help.ends_with('.'));
      if (flag.complete == Complete::kChoice) CHECK_FALSE(flag.choices.empty());
      if (flag.repeat == Repeat::kAll) CHECK(flag.takes_value());
    }
  }
}

// NOLINTNEXTLINE(readability-function-size): doctest macros count as branches
TEST_CASE("verbs: examples are command lines that their verb accepts") {
  for (const Verb* verb : verbs()) {
    for (const Example& example : verb->examples) {
      CAPTURE(example.command);
      // a simple split will do: quotes only surround single words here
      std::string_view line = example.command;
      line.remove_prefix(line.find("sbx "));
      line = line.substr(0, line.find(" | "));
      line = line.substr(0, line.find(" > "));
      Lines words;
      bool quoted = false;
      std::string word;
      for (char c : line) {
        if (c == '\'') {
          quoted = !quoted;
        } else if (c == ' ' && !quoted) {
          words.push_back(std::exchange(word, {}));
        } else {
          word += c;
        }
      }
      words.push_back(word);
      words.erase(words.begin());
      Found found = find_verb(words);
      REQUIRE(found.verb == verb);
      auto result = parse(*verb, split(std::span<const std::string>(words).subspan(found.taken)));
      CHECK_MESSAGE(result.ok(), (result.ok() ? "" : result.error().message()));
    }
  }
}

TEST_CASE("verbs: words find their row") {
  CHECK(find_verb(Lines{"run", "run"}).verb == &kRunVerb);
  CHECK(find_verb(Lines{"profile", "ls"}).verb == &kProfileLsVerb);
  CHECK(find_verb(Lines{"profile", "ls"}).taken == 2);
  CHECK(find_verb(Lines{"profile"}).verb == nullptr);
  CHECK(find_verb(Lines{"ls"}).verb == nullptr);
  CHECK(find_verb(Lines{""}).verb == nullptr);
  CHECK(find_verb(Lines{}).verb == nullptr);
  CHECK(is_group("profile"));
  CHECK_FALSE(is_group("run"));
  CHECK_FALSE(is_group(""));
}

TEST_CASE("verbs: an unknown verb gets the one that was meant, a file the way to run it") {
  auto hint = [](const Lines& words) { return unknown_verb(words).hint(); };
  CHECK(hint({"rn"}) == "did you mean sbx run?");
  CHECK(hint({"profiles", "ls"}) == "did you mean sbx profile?");
  CHECK(hint({"profile", "expalin"}) == "did you mean sbx profile explain?");
  CHECK(hint({"profile", "zzz"}) == "see sbx profile --help");
  CHECK(hint({"/etc/passwd"}) == "to run the file: sbx run /etc/passwd");
  CHECK(hint({"--json"}) == "flags stand behind the verb: sbx run FLAG... FILE");
  CHECK(hint({"qqqqqq"}) == "see sbx --help");
  CHECK(unknown_verb(Lines{"\x1b[1m"}).message() == "unknown verb \"\\x1b[1m\"");
}
