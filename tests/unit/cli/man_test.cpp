// Man test: the manual pages describe exactly the verbs, flags and variables that there are.
#include <algorithm>
#include <array>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/verbs.h"
#include "core/base/text.h"
#include "core/profile/profile.h"

#include "doc_source.h"
#include "tests/support/process.h"
#include "tests/support/skip.h"

using sbx::cli::Flag;
using sbx::cli::Verb;
using sbx::cli::verbs;
using sbx::test::source_file;
using sbx::test::spellings;

namespace {

/// Verbs with a page of their own.
constexpr std::array<std::string_view, 4> kOwnPage = {"run", "batch", "doctor", "gc"};

/// The page of its own that a verb has, or shares with its group; empty: none but sbx(1).
std::string page_of(const Verb& verb) {
  if (std::ranges::find(kOwnPage, verb.name) != kOwnPage.end()) {
    return "man/sbx-" + std::string(verb.name) + ".1";
  }
  if (verb.name.starts_with("runs ")) return "man/sbx-runs.1";
  if (verb.name.starts_with("session ")) return "man/sbx-session.1";
  if (verb.name.starts_with("image ")) return "man/sbx-image.1";
  if (verb.name.starts_with("kernel ")) return "man/sbx-kernel.1";
  return verb.name.starts_with("profile ") ? "man/sbx-profile.1" : "";
}

/// Verbs that sbx(1) describes in a line.
bool is_small(const Verb& verb) {
  return page_of(verb).empty();
}

/// The text that describes one verb.
std::string description(const Verb& verb) {
  if (is_small(verb)) return source_file("man/sbx.1");
  std::string page = source_file(page_of(verb));
  if (verb.name.find(' ') == std::string_view::npos) return page;
  std::size_t begin = page.find("\n.Ss sbx " + std::string(verb.name) + "\n");
  REQUIRE_MESSAGE(begin != std::string::npos, "no section for ", verb.name);
  return page.substr(begin,
                     std::min(page.find("\n.Ss ", begin + 1), page.find("\n.Sh ", begin)) - begin);
}

/// How the item of a flag begins: ".It Fl m , Fl -memory Ar SIZE".
std::string item(const Flag& flag) {
  std::string out = "\n.It ";
  if (flag.letter != '\0') out += std::string("Fl ") + flag.letter + " , ";
  out += "Fl -" + std::string(flag.name);
  if (!flag.takes_value()) return out + '\n';
  return out + " Ar " + std::string(flag.arg.substr(0, flag.arg.find_first_of("=[:|")));
}

}  // namespace

TEST_CASE("man: each flag of run and profile has an item of its own") {
  for (const Verb* verb : verbs()) {
    if (is_small(*verb)) continue;
    CAPTURE(verb->name);
    std::string text = description(*verb);
    for (const Flag& flag : verb->flags) {
      CHECK_MESSAGE(text.find(item(flag)) != std::string::npos, "not found: ", item(flag));
    }
  }
}

TEST_CASE("man: no item is about a flag that does not exist") {
  std::regex expression("\n\\.It Fl (?:[a-zA-Z] , Fl )?(-[a-z-]+)");
  for (const Verb* verb : verbs()) {
    CAPTURE(verb->name);
    if (is_small(*verb)) continue;
    std::set<std::string> known = spellings(*verb);
    std::string text = description(*verb);
    for (std::sregex_iterator it(text.begin(), text.end(), expression);
         it != std::sregex_iterator();
         ++it) {
      std::string name = '-' + (*it)[1].str();
      CHECK_MESSAGE(known.contains(name), name, " is described but does not exist");
    }
  }
}

TEST_CASE("man: sbx(1) names every verb, with the flags of the small ones, and every variable") {
  std::string page = source_file("man/sbx.1");
  for (const Verb* verb : verbs()) {
    CAPTURE(verb->name);
    CHECK(page.find("\n.It Ic " + std::string(verb->name)) != std::string::npos);
  }
  CHECK(page.find(".It Ic version Op Fl -json\n") != std::string::npos);
  for (const sbx::profile::KeyInfo& key : sbx::profile::key_infos()) {
    if (key.env.empty()) continue;
    CHECK_MESSAGE(page.find(key.env) != std::string::npos, key.env, " is not described");
  }
}

TEST_CASE("man: examples of run and profile in the pages are those of the table") {
  for (const Verb* verb : verbs()) {
    if (is_small(*verb)) continue;
    std::string page = source_file(page_of(*verb));
    page = std::regex_replace(page, std::regex("\\\\-"), "-");
    CHECK_MESSAGE(page.find(verb->examples[0].command) != std::string::npos,
                  verb->examples[0].command);
  }
}

TEST_CASE("man: the README only shows sbx with flags that exist") {
  std::string readme = source_file("README.md");
  std::size_t seen = 0;
  for (std::string_view line : sbx::text::split(readme, '\n')) {
    std::string shown(line.substr(0, line.find(" # ")));
    if (!line.starts_with("sbx ")) continue;
    shown = shown.substr(0, shown.find(" -- "));
    std::vector<std::string> words;
    for (std::string_view word : sbx::text::split(shown, ' ')) {
      words.emplace_back(word);
    }
    words.erase(words.begin());
    sbx::cli::Found found = sbx::cli::find_verb(words);
    if (found.verb == nullptr) continue;  // "sbx is..."
    CAPTURE(line);
    ++seen;
    for (const std::string& word : words) {
      if (!word.starts_with("--") || word == "--verbose") continue;  // job.py's own
      CHECK(spellings(*found.verb).contains(word.substr(0, word.find('='))));
    }
  }
  CHECK(seen > 10);
}

TEST_CASE("man: mandoc finds nothing to complain about") {
  SKIP_UNLESS("mandoc");
  auto outcome = sbx::test::run({.argv = {"/usr/bin/mandoc",
                                          "-T",
                                          "lint",
                                          "-W",
                                          "style",
                                          "sbx.1",
                                          "sbx-run.1",
                                          "sbx-batch.1",
                                          "sbx-runs.1",
                                          "sbx-session.1",
                                          "sbx-image.1",
                                          "sbx-kernel.1",
                                          "sbx-doctor.1",
                                          "sbx-gc.1",
                                          "sbx-profile.1",
                                          "sbx-profile.5"},
                                 .cwd = SBX_SOURCE_DIR "/man"});
  std::string complaints;
  for (std::string_view line : sbx::text::split(outcome.out, '\n')) {
    // whether other pages are known depends on the machine, not on ours
    if (line.empty() || line.find("referenced manual not found") != std::string_view::npos) {
      continue;
    }
    complaints += std::string(line) + '\n';
  }
  CHECK_MESSAGE(complaints.empty(), complaints);
}
