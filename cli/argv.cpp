// Argv: takes the command line apart before any parser sees it; knows bytes and `--`, not meanings.
#include "cli/argv.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 1> kRoles = {"internal-jail-init"};

constexpr std::size_t kNowhere = std::string_view::npos;

/// What one word asks for, read with the verb's own flags.
struct Word {
  const Flag* wants_next = nullptr;  // the flag whose value is the next word
  std::size_t empty_at = 0;          // `--name=`: position of the `=`
};

Word look_at(const Verb& verb, std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return {};
  if (word[1] == '-') {
    std::size_t equals = word.find('=');
    const Flag* flag = verb.find(word.substr(2, equals == kNowhere ? equals : equals - 2));
    if (flag == nullptr || !flag->takes_value()) return {};
    if (equals == kNowhere) return {.wants_next = flag};
    return {.empty_at = equals + 1 == word.size() ? equals : 0};
  }
  for (std::size_t i = 1; i < word.size();
       ++i) {  // -qt: a cluster ends at the first flag with a value
    const Flag* flag = verb.find(word[i]);
    if (flag == nullptr) return {};
    if (flag->takes_value()) return {.wants_next = i + 1 == word.size() ? flag : nullptr};
  }
  return {};
}

}  // namespace

Argv split(std::span<const std::string> words) {
  auto cut = std::ranges::find(words, "--");
  Argv out;
  out.ours.assign(words.begin(), cut);
  out.has_rest = cut != words.end();
  if (out.has_rest) out.rest.assign(cut + 1, words.end());
  return out;
}

Result<std::vector<std::string>> prepare(const Verb& verb, std::vector<std::string> ours) {
  std::vector<std::string> out;
  out.reserve(ours.size() + 1);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    bool is_word = ours[i].empty() || ours[i][0] != '-' || ours[i] == "-";
    if (is_word && verb.words.program) {  // the program's from here on
      std::move(ours.begin() + static_cast<std::ptrdiff_t>(i), ours.end(), std::back_inserter(out));
      break;
    }
    Word word = look_at(verb, ours[i]);
    if (word.empty_at != 0) {
      out.push_back(ours[i].substr(0, word.empty_at));
      out.emplace_back();
      continue;
    }
    out.push_back(std::move(ours[i]));
    if (word.wants_next == nullptr) continue;
    if (i + 1 == ours.size()) {
      return Error(
          Errc::kUsage,
          spelled(*word.wants_next) + " needs a value: " + std::string(word.wants_next->arg));
    }
    out.push_back(std::move(ours[++i]));
  }
  return out;
}

std::string spelled(const Flag& flag) {
  std::string out;
  if (flag.letter != '\0') {
    out += '-';
    out += flag.letter;
    out += '/';
  }
  out += "--";
  out += flag.name;
  return out;
}

std::string_view role_of(std::span<const char* const> argv) {
  for (std::size_t i = 0; i < argv.size() && i < 2; ++i) {
    for (std::string_view role : kRoles) {
      if (argv[i] == role) return role;
    }
  }
  return {};
}

}  // namespace sbx::cli
