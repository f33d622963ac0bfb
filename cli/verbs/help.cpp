// Verb help: the help of a verb, a group of verbs, or all.
#include "cli/help.h"

#include <array>

#include "cli/output.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kUsage = {"sbx help [VERB]"};
constexpr std::array<Example, 2> kExamples = {{
    {"sbx help", "all verbs"},
    {"sbx help run", "flags, defaults and examples of run"},
}};

int show_help(const Invocation& invocation) {
  bool colour = has_colour(Stream::kOut);
  const std::vector<std::string>& words = invocation.words();
  if (words.empty()) return printed(print(overview({}, colour)));
  Found found = find_verb(words);
  if (found.verb != nullptr && found.taken == words.size()) {
    return printed(print(help_of(*found.verb, colour)));
  }
  if (words.size() == 1 && is_group(words[0])) return printed(print(overview(words[0], colour)));
  print_error(unknown_verb(words));
  return kExitUsage;
}

}  // namespace

constexpr Verb kHelpVerb = {
    .name = "help",
    .summary = "Show the help of a verb",
    .usage = kUsage,
    .words = {.max = 2, .complete = Complete::kVerb, .name = "VERB"},
    .examples = kExamples,
    .run = show_help,
};

}  // namespace sbx::cli
