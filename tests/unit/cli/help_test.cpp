// Help test: every flag and example is in the help, no line is too wide.
#include "cli/help.h"

#include <algorithm>
#include <regex>
#include <string>

#include <doctest/doctest.h>

#include "cli/verbs.h"
#include "core/base/text.h"

using namespace sbx::cli;  // NOLINT(google-build-using-namespace): a test of this namespace

TEST_CASE("help: of every verb holds its usage, flags and examples, and fits into 80 columns") {
  for (const Verb* verb : verbs()) {
    CAPTURE(verb->name);
    std::string help = help_of(*verb, false);
    for (std::string_view usage : verb->usage) {
      CHECK(help.find(usage) != std::string::npos);
    }
    for (const Flag& flag : verb->flags) {
      CHECK(help.find("--" + std::string(flag.name)) != std::string::npos);
    }
    CHECK(help.find("\nExamples:\n") != std::string::npos);
    for (const Example& example : verb->examples) {
      CHECK(help.find(example.command) != std::string::npos);
    }
    for (std::string_view line : sbx::text::split(help, '\n')) {
      CAPTURE(line);
      CHECK(line.size() <= 79);
      CHECK_FALSE(line.ends_with(' '));
    }
    CHECK(help.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("help: the overview names every verb, a group's only its own") {
  std::string all = overview({}, false);
  for (const Verb* verb : verbs()) {
    CAPTURE(verb->name);
    const std::string group = verb->name.starts_with("session ") ? "session"
                              : verb->name.starts_with("image ") ? "image"
                                                                 : "";
    const std::string line = group.empty() ? std::string(verb->name) : group + " VERB";
    CHECK(all.find("\n  " + line + " ") != std::string::npos);
    if (group.empty()) continue;
    const std::string last(verb->name.substr(group.size() + 1));
    CHECK(std::regex_search(all, std::regex("[ :]" + last + "[,\n]")));
    CHECK(overview(group, false).find("\n  " + std::string(verb->name) + "  ") !=
          std::string::npos);
  }
  std::string group = overview("profile", false);
  CHECK(group.find("profile ls") != std::string::npos);
  CHECK(group.find("  run ") == std::string::npos);
}

TEST_CASE("help: headings are bold on a terminal") {
  CHECK(help_of(kVersionVerb, true).find("\x1b[1mFlags:\x1b[0m") != std::string::npos);
}
