// Yaml_syntax: the table of sentences, and cutting a broken section out of a file.
#include "core/profile/yaml_syntax.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sbx::profile {
namespace {

/// yaml-cpp's words and ours. What is not listed is shown as it is.
constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kSentences{{
    {"illegal map value",
     "a colon is not expected here: quote text that holds \": \", or look for a missing colon or "
     "wrong indentation on the line above"},
    {"illegal map key", "a key is not expected here: check the indentation"},
    {"illegal block entry", "a list item (-) is not expected here: put it on a line of its own"},
    {"end of map not found",
     "this line fits to no key above it: check its indentation and its colon"},
    {"end of sequence not found",
     "this line fits to no list above it: check its indentation and its dash"},
    {"end of map flow not found", "the { that opens here is never closed"},
    {"end of sequence flow not found", "the [ that opens here is never closed"},
    {"illegal flow end", "a closing ] or } without its opening one"},
    {"unknown token", "text cannot start with this character: put it in quotes"},
    {"illegal EOF in scalar", "a quote is opened here and never closed"},
    {"illegal tab when looking for indentation", "indented with a tab: YAML wants spaces here"},
    {"the referenced anchor is not defined", "this alias stands for nothing: no such anchor above"},
    {"alias not found after *", "text that starts with * must be in quotes"},
    {"anchor not found after &", "text that starts with & must be in quotes"},
    {"illegal character found while scanning alias", "text that starts with * must be in quotes"},
    {"illegal character found while scanning anchor", "text that starts with & must be in quotes"},
    {"tag handle with no suffix", "text that starts with ! must be in quotes"},
    {"unexpected character in block scalar",
     "only an indentation number, + or - may follow | or >"},
}};

/// Whether a new top-level key starts with `line`.
bool starts_section(std::string_view line) {
  if (line.empty()) return false;
  const char first = line.front();
  const bool is_key = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') ||
                      first == '"' || first == '\'' || first == '_';
  return is_key && line.find(':') != std::string_view::npos;
}

}  // namespace

std::string syntax_sentence(std::string_view message) {
  const auto* const known = std::find_if(
      kSentences.begin(), kSentences.end(), [&](const auto& row) { return row.first == message; });
  return std::string(known == kSentences.end() ? message : known->second);
}

std::string_view line_of(std::string_view text, int number) {
  std::size_t start = 0;
  for (int i = 1; i < number; ++i) {
    const std::size_t newline = text.find('\n', start);
    if (newline == std::string_view::npos) return {};
    start = newline + 1;
  }
  return text.substr(start, text.find('\n', start) - start);
}

bool blank_section(std::string& text, int line) {
  std::size_t begin = std::string::npos;
  std::size_t end = text.size();
  int number = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t newline = std::min(text.find('\n', start), text.size());
    ++number;
    if (starts_section(std::string_view(text).substr(start, newline - start))) {
      if (number > line) {
        end = start;
        break;
      }
      begin = start;
    }
    start = newline + 1;
  }
  if (begin == std::string::npos) return false;
  bool changed = false;
  for (std::size_t i = begin; i < end; ++i) {
    if (text[i] == '\n' || text[i] == '\r' || text[i] == ' ') continue;
    // Each byte of a multi-byte character becomes a space: nothing after it on the line is left.
    text[i] = ' ';
    changed = true;
  }
  return changed;
}

}  // namespace sbx::profile
