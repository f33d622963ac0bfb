// Verb: one row of the command table - name, flags, words it takes, examples and the function that
// does it.
//
// Everything is constant data: the rows cost nothing at start-up, and the parser, the help, the
// manual's test and the completions' test all read the same ones. No parser library is known here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/result.h"

namespace sbx::cli {

/// How often a flag may be given.
enum class Repeat : std::uint8_t {
  kLast,  // the last one counts, so that an alias can be overridden
  kOnce,  // a second one is an error
  kAll,   // each one counts
};

/// What a shell offers for a flag's value or for a word.
enum class Complete : std::uint8_t { kNothing, kFile, kDirectory, kProfile, kChoice, kVerb };

struct Flag {
  char letter = '\0';         // -m; 0: none
  std::string_view name;      // "memory" for --memory
  std::string_view arg = {};  // "SIZE"; empty: a switch
  std::string_view help;
  std::string_view group = {};
  Repeat repeat = Repeat::kLast;
  Complete complete = Complete::kNothing;
  std::span<const std::string_view> choices = {};  // the only values allowed, when not empty

  constexpr bool takes_value() const { return !arg.empty(); }
};

struct Example {
  std::string_view command;
  std::string_view what;
};

/// The words of a verb that are not flags.
struct Words {
  std::size_t min = 0;
  std::size_t max = 0;
  Complete complete = Complete::kNothing;
  std::string_view name = {};  // "PROFILE", for messages
  bool program = false;  // from the first word on, all is the program's: later flags are not ours
  bool rest = false;     // a program may stand behind `--`, and only there
};

/// One verb as it was typed: which flags, which words, and what stood after the first `--`.
class Invocation;

struct Verb {
  std::string_view name;     // "run", "profile ls"
  std::string_view summary;  // one line for the overview
  std::span<const std::string_view> usage;
  std::string_view details = {};  // paragraphs of the help, separated by blank lines
  std::span<const Flag> flags = {};
  Words words = {};
  std::span<const Example> examples;
  int (*run)(const Invocation&) = nullptr;  // exit status
  /// Begins what takes long before the command line (given up to `--`) is parsed; may be null.
  std::shared_ptr<backend::HeadStart> (*begin)(std::span<const std::string>) = nullptr;
  /// Says that the command line (without what stands behind `--`) has a mistake; null: on stderr,
  /// as for any verb.
  int (*refuse)(const Error&, std::span<const std::string>) = nullptr;
  /// It deals with leftovers itself; after other verbs without `begin` they are looked for.
  bool is_reaping = false;

  const Flag* find(std::string_view flag_name) const {
    for (const Flag& flag : flags) {
      if (flag.name == flag_name) return &flag;
    }
    return nullptr;
  }
  const Flag* find(char letter) const {
    for (const Flag& flag : flags) {
      if (flag.letter != '\0' && flag.letter == letter) return &flag;
    }
    return nullptr;
  }
};

struct GivenFlag {
  const Flag* flag;
  std::string value;  // empty for a switch
};

class Invocation {
 public:
  explicit Invocation(const Verb& verb) : verb_(&verb) {}

  const Verb& verb() const { return *verb_; }
  const std::vector<GivenFlag>& flags() const { return flags_; }
  const std::vector<std::string>& words() const { return words_; }
  /// What stood after the first `--`, byte for byte; `has_rest` tells `--` with nothing behind it
  /// from no `--`.
  const std::vector<std::string>& rest() const { return rest_; }
  bool has_rest() const { return has_rest_; }

  bool has(std::string_view flag_name) const { return last(flag_name) != nullptr; }
  /// The value that counts, or null when the flag was not given.
  const std::string* last(std::string_view flag_name) const {
    const std::string* found = nullptr;
    for (const GivenFlag& given : flags_) {
      if (given.flag->name == flag_name) found = &given.value;
    }
    return found;
  }
  std::vector<std::string> all(std::string_view flag_name) const {
    std::vector<std::string> values;
    for (const GivenFlag& given : flags_) {
      if (given.flag->name == flag_name) values.push_back(given.value);
    }
    return values;
  }

  /// What Verb::begin made; may be null.
  const std::shared_ptr<backend::HeadStart>& head() const { return head_; }
  void set_head(std::shared_ptr<backend::HeadStart> head) { head_ = std::move(head); }
  void add_flag(const Flag& flag, std::string value) {
    flags_.push_back({&flag, std::move(value)});
  }
  void set_words(std::vector<std::string> words) { words_ = std::move(words); }
  void set_rest(std::vector<std::string> rest) {
    rest_ = std::move(rest);
    has_rest_ = true;
  }

 private:
  const Verb* verb_;
  std::vector<GivenFlag> flags_;
  std::vector<std::string> words_;
  std::vector<std::string> rest_;
  bool has_rest_ = false;
  std::shared_ptr<backend::HeadStart> head_;
};

}  // namespace sbx::cli
