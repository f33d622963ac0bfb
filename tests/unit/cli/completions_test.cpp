// Completions test: each shell's file offers exactly the verbs and flags of the table.
#include <regex>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "cli/verbs.h"

#include "doc_source.h"

using sbx::cli::Verb;
using sbx::cli::verbs;
using sbx::test::source_file;
using sbx::test::spellings;

namespace {

/// The lines of one verb: from "# verb: NAME" to the next such line.
std::string section(const std::string& text, std::string_view verb) {
  std::string mark = "# verb: " + std::string(verb) + "\n";
  std::size_t begin = text.find(mark);
  REQUIRE_MESSAGE(begin != std::string::npos, "no section for ", verb);
  begin += mark.size();
  std::size_t end = std::min(text.find("\n# verb: ", begin), text.find("\n# end of verbs", begin));
  return text.substr(begin, end - begin);
}

std::set<std::string> matches(const std::string& text, const char* pattern, const char* prefix) {
  std::set<std::string> out;
  std::regex expression(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), expression); it != std::sregex_iterator();
       ++it) {
    out.insert(prefix + (*it)[1].str());
  }
  return out;
}

std::string show(const std::set<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += word + ' ';
  }
  return out;
}

/// Flags as a shell's file writes them: in bash and zsh as they are typed, in fish behind -l and
/// -s.
std::set<std::string> offered(const std::string& text, bool is_fish) {
  auto found = matches(text, is_fish ? " -l ([a-z-]+)" : "(?:^|[^a-z0-9-])--([a-z][a-z-]*)", "--");
  found.merge(matches(text, is_fish ? " -s ([A-Za-z])\\b" : "(?:^|[\\s'{,(])-([A-Za-z])\\b", "-"));
  return found;
}

void compare(const char* path, bool is_fish) {
  std::string text = source_file(path);
  std::size_t sections = 0;
  for (const Verb* verb : verbs()) {
    CAPTURE(verb->name);
    std::string part = section(text, verb->name);
    if (!is_fish) part = std::regex_replace(part, std::regex("_arguments -s |-g \"[^\"]*\""), "");
    CHECK(show(offered(part, is_fish)) == show(spellings(*verb)));
    std::string last(verb->name.substr(verb->name.rfind(' ') + 1));
    CHECK_MESSAGE(std::regex_search(text, std::regex("(^|[\\s'])" + last + "(['\\s:]|$)")),
                  "the name of the verb is not offered");
    ++sections;
  }
  CHECK(matches(text, "# verb: ([a-z ]+)\n", "").size() == sections);
}

}  // namespace

TEST_CASE("completions: bash offers the verbs and flags of the table") {
  compare("completions/sbx.bash", false);
}

TEST_CASE("completions: zsh offers the verbs and flags of the table") {
  compare("completions/_sbx", false);
}

TEST_CASE("completions: fish offers the verbs and flags of the table") {
  compare("completions/sbx.fish", true);
}

TEST_CASE("completions: bash and fish know which flags of run take a value") {
  std::string bash = source_file("completions/sbx.bash");
  bash = bash.substr(bash.find("_sbx_takes_value() {"));
  bash = bash.substr(0, bash.find("*) return 1"));
  std::string fish = source_file("completions/sbx.fish");
  fish = fish.substr(fish.find("switch $word"));
  fish = fish.substr(0, fish.find("set skip 1"));
  std::set<std::string> wanted;
  for (const sbx::cli::Flag& flag : sbx::cli::kRunVerb.flags) {
    if (!flag.takes_value()) continue;
    wanted.insert("--" + std::string(flag.name));
    if (flag.letter != '\0') wanted.insert(std::string("-") + flag.letter);
  }
  CHECK(show(offered(bash, false)) == show(wanted));
  CHECK(show(offered(fish, false)) == show(wanted));
}
