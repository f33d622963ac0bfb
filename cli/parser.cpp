// Parser: reads one verb's command line into an Invocation. The only file that knows the parser
// library.
#include "cli/parser.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "core/base/text.h"

namespace sbx::cli {

constexpr Flag kHelpFlag = {.letter = 'h', .name = "help", .help = "Show this help"};

namespace {

bool looks_like_flag(std::string_view word) {
  return word.size() > 1 && word[0] == '-';
}

Error usage(std::string message) {
  return {Errc::kUsage, std::move(message)};
}

/// "--memroy=5": unknown, perhaps --memory was meant.
Error unknown_flag(const Verb& verb, std::string_view word) {
  std::string_view shown = word.substr(0, word.find('='));
  Error error = usage(text::cat("unknown flag ", text::escape(shown), " for sbx ", verb.name));
  if (shown.starts_with("--")) {
    std::vector<std::string_view> names;
    for (const Flag& flag : verb.flags) {
      names.push_back(flag.name);
    }
    if (auto near = text::closest(shown.substr(2), names)) {
      return std::move(error).with_hint(text::cat("did you mean --", *near, "?"));
    }
  }
  return std::move(error).with_hint(text::cat("see sbx ", verb.name, " --help"));
}

Status check_words(const Verb& verb, const std::vector<std::string>& words) {
  const Words& wanted = verb.words;
  if (words.size() < wanted.min) {
    return usage(text::cat("sbx ", verb.name, " needs ", wanted.name))
        .with_hint(text::cat("see sbx ", verb.name, " --help"));
  }
  if (!wanted.program && words.size() > wanted.max) {
    return usage(text::cat("unexpected word \"",
                           text::escape(words[wanted.max]),
                           "\" after sbx ",
                           verb.name))
        .with_hint(text::cat("see sbx ", verb.name, " --help"));
  }
  return {};
}

Status check_value(const Flag& flag, const std::string& value) {
  if (flag.choices.empty() || std::ranges::find(flag.choices, value) != flag.choices.end()) {
    return {};
  }
  std::string list;
  for (std::string_view choice : flag.choices) {
    if (!list.empty()) list += ", ";
    list += choice;
  }
  Error error =
      usage(text::cat(spelled(flag), ": \"", text::escape(value), "\" is not one of ", list));
  std::vector<std::string_view> choices(flag.choices.begin(), flag.choices.end());
  if (auto near = text::closest(value, choices)) {
    return std::move(error).with_hint(text::cat("did you mean ", *near, "?"));
  }
  return error;
}

CLI::Option* add(CLI::App& app, const Flag& flag) {
  std::string name = text::cat("--", flag.name);
  if (flag.letter != '\0') name = text::cat("-", std::string_view(&flag.letter, 1), ",", name);
  if (!flag.takes_value()) return app.add_flag(name);
  return app.add_option(name)->expected(1)->allow_extra_args(false)->multi_option_policy(
      CLI::MultiOptionPolicy::TakeAll);
}

/// Moves what the library found for one flag into the invocation.
Status take(const CLI::Option& option, const Flag& flag, Invocation& out) {
  const std::vector<std::string>& values = option.results();
  if (flag.repeat == Repeat::kOnce && values.size() > 1) {
    return usage(text::cat(spelled(flag), " is given twice"));
  }
  for (const std::string& value : values) {
    if (!flag.takes_value()) {
      if (value != "true") return usage(text::cat(spelled(flag), " takes no value"));
      out.add_flag(flag, {});
      continue;
    }
    SBX_TRY(check_value(flag, value));
    out.add_flag(flag, value);
  }
  return {};
}

Status read(CLI::App& app, const Verb& verb, std::vector<std::string> ours, Invocation& out) {
  app.set_help_flag();
  app.allow_extras();
  app.prefix_command(verb.words.program);
  CLI::Option* help = add(app, kHelpFlag);
  std::vector<CLI::Option*> options;
  options.reserve(verb.flags.size());
  for (const Flag& flag : verb.flags) {
    options.push_back(add(app, flag));
  }

  std::ranges::reverse(ours);  // the library eats from the back
  app.parse(std::move(ours));
  if (help->count() > 0) {
    out.add_flag(kHelpFlag, {});
    return {};
  }
  std::vector<std::string> words = app.remaining();
  for (const std::string& word : words) {
    if (looks_like_flag(word)) return unknown_flag(verb, word);
    if (verb.words.program) break;
  }
  for (std::size_t i = 0; i < options.size(); ++i) {
    SBX_TRY(take(*options[i], verb.flags[i], out));
  }
  SBX_TRY(check_words(verb, words));
  out.set_words(std::move(words));
  return {};
}

}  // namespace

Result<Invocation> parse(const Verb& verb, Argv argv) {
  Invocation out(verb);
  if (argv.has_rest) {
    if (!verb.words.program && !verb.words.rest) {
      return usage(text::cat("sbx ", verb.name, " takes no --"));
    }
    out.set_rest(std::move(argv.rest));
  }
  if (argv.ours.empty()) {  // nothing to read: no parser is built
    SBX_TRY(check_words(verb, {}));
    return out;
  }
  SBX_ASSIGN(std::vector<std::string> ours, prepare(verb, std::move(argv.ours)));
  try {
    CLI::App app;
    SBX_TRY(read(app, verb, std::move(ours), out));
  } catch (const CLI::Error& error) {
    return usage(error.what());
  } catch (const std::exception& error) {
    return Error(Errc::kInternal, text::cat("read the command line: ", error.what()));
  }
  return out;
}

}  // namespace sbx::cli
