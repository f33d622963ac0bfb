// App: from argv to an exit status, once it is clear that this process is the command line.
#include "cli/app.h"

#include <string>
#include <utility>
#include <vector>

#include "cli/argv.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "cli/variables.h"
#include "cli/verbs.h"
#include "core/base/exit_code.h"
#include "core/host/leftovers.h"
#include "core/host/paths.h"
#include "core/run/scratch.h"

namespace sbx::cli {
namespace {

bool is_help(const std::string& word) {
  return word == "--help" || word == "-h";
}

/// Nothing, or only the name of a group was typed: show what there is, as an error.
int show_choice(std::string_view group) {
  print_error(
      Error(Errc::kUsage,
            group.empty() ? "no verb given" : "no verb given after sbx " + std::string(group)));
  (void)print_notice(overview(group, has_colour(Stream::kErr)));
  return kExitUsage;
}

int without_verb(const std::vector<std::string>& words) {
  if (words.empty()) return show_choice({});
  if (is_help(words[0])) return printed(print(overview({}, has_colour(Stream::kOut))));
  if (words[0] == "--version" || words[0] == "-V") {
    return kVersionVerb.run(Invocation(kVersionVerb));
  }
  if (is_group(words[0])) {
    if (words.size() == 1) return show_choice(words[0]);
    if (is_help(words[1])) return printed(print(overview(words[0], has_colour(Stream::kOut))));
  }
  print_error(unknown_verb(words));
  return kExitUsage;
}

/// What an sbx that was killed left on this host.
void remove_leftovers() {
  host::reap_leftovers();
  if (const auto state = host::existing_state_dir()) {
    (void)run::reclaim_scratch(*state, run::Reclaim::kRemove);
  }
}

}  // namespace

int run_cli(std::span<const char* const> argv) {
  std::vector<std::string> words;
  if (!argv.empty()) words.assign(argv.begin() + 1, argv.end());
  Found found = find_verb(words);
  if (found.verb == nullptr) return without_verb(words);

  Argv cut = split(std::span(words).subspan(found.taken));
  std::shared_ptr<backend::HeadStart> head;
  if (found.verb->begin != nullptr) head = found.verb->begin(cut.ours);
  Result<Invocation> invocation = parse(*found.verb, cut);
  if (!invocation.ok()) {
    if (found.verb->refuse != nullptr) return found.verb->refuse(invocation.error(), cut.ours);
    print_error(invocation.error());
    return kExitUsage;
  }
  if (invocation.value().has(kHelpFlag.name)) {
    return printed(print(help_of(*found.verb, has_colour(Stream::kOut))));
  }
  if (!invocation.value().has("quiet")) {
    for (const std::string& sentence : unknown_variables()) {
      print_warning(sentence);
    }
  }
  invocation.value().set_head(std::move(head));
  const int status = found.verb->run(invocation.value());
  const bool looks_itself = found.verb->begin != nullptr || found.verb->is_reaping;
  if (!looks_itself) remove_leftovers();
  return status;
}

}  // namespace sbx::cli
