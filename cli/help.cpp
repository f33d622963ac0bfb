// Help: turns rows of the verb table into the text people read.
#include "cli/help.h"

#include <algorithm>
#include <vector>

#include "cli/parser.h"
#include "cli/verbs.h"

namespace sbx::cli {
namespace {

constexpr std::size_t kWidth = 79;
constexpr std::size_t kColumn = 28;  // where the text behind a flag begins

std::string heading(std::string_view text, bool colour) {
  std::string out = "\n";
  if (colour) out += "\x1b[1m";
  out += text;
  out += ':';
  if (colour) out += "\x1b[0m";
  out += '\n';
  return out;
}

/// `text` broken at blanks so that no line passes kWidth; lines after the first begin with `indent`
/// blanks.
std::string wrap(std::string_view text, std::size_t used, std::size_t indent) {
  std::string out;
  std::size_t column = used;
  while (!text.empty()) {
    std::size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    bool first = out.empty();
    if (!first && column + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string flag_line(const Flag& flag) {
  std::string left = "  ";
  if (flag.letter != '\0') {
    left += '-';
    left += flag.letter;
    left += ", ";
  } else {
    left += "    ";
  }
  left += "--";
  left += flag.name;
  if (flag.takes_value()) {
    left += ' ';
    left += flag.arg;
  }
  if (left.size() + 2 > kColumn) {
    left += '\n';
    left.append(kColumn, ' ');
  } else {
    left.append(kColumn - left.size(), ' ');
  }
  return left + wrap(flag.help, kColumn, kColumn) + '\n';
}

std::string flags_by_group(const Verb& verb, bool colour) {
  std::string out;
  std::vector<std::string_view> groups;
  for (const Flag& flag : verb.flags) {
    if (std::ranges::find(groups, flag.group) == groups.end()) groups.push_back(flag.group);
  }
  for (std::string_view group : groups) {
    out += heading(group.empty() ? "Flags" : group, colour);
    for (const Flag& flag : verb.flags) {
      if (flag.group == group) out += flag_line(flag);
    }
  }
  if (groups.empty()) out += heading("Flags", colour);
  return out + flag_line(kHelpFlag);
}

std::string paragraphs(std::string_view details) {
  std::string out;
  while (!details.empty()) {
    std::size_t end = std::min(details.find("\n\n"), details.size());
    out += '\n' + wrap(details.substr(0, end), 0, 0) + '\n';
    details.remove_prefix(std::min(end + 2, details.size()));
  }
  return out;
}

std::string examples(const Verb& verb, bool colour) {
  std::string out = heading("Examples", colour);
  for (const Example& example : verb.examples) {
    out += "  # ";
    out += example.what;
    out += "\n  ";
    out += example.command;
    out += '\n';
  }
  return out;
}

}  // namespace

std::string help_of(const Verb& verb, bool colour) {
  std::string out;
  for (std::string_view usage : verb.usage) {
    out += out.empty() ? "Usage: " : "       ";
    out += usage;
    out += '\n';
  }
  out += '\n' + wrap(verb.summary, 0, 0) + ".\n" + paragraphs(verb.details);
  out += flags_by_group(verb, colour) + examples(verb, colour);
  return out;
}

std::string overview(std::string_view group, bool colour) {
  std::string out = "Usage: sbx ";
  if (!group.empty()) {
    out += group;
    out += ' ';
  }
  out += "VERB [FLAG...] [WORD...]\n";
  if (group.empty()) {
    out += "\nRuns programs in a sandbox on this machine: no daemon, no account.\n";
  }
  out += heading("Verbs", colour);
  for (const Verb* verb : verbs()) {
    if (!in_group(*verb, group)) continue;
    std::string left = "  ";
    left += verb->name;
    left.append(left.size() < 20 ? 20 - left.size() : 1, ' ');
    out += left + wrap(verb->summary, 20, 20) + '\n';
  }
  out += heading("More", colour);
  out += "  sbx VERB --help     flags, defaults and examples of one verb\n";
  out += "  man sbx             exit status, environment, files\n";
  if (group.empty()) {
    out += heading("Examples", colour);
    out += "  sbx run -c 'print(6*7)'\n";
    out += "  sbx run -i data.csv -o out report.py\n";
    out += "  sbx run -p bash -- ls -l /\n";
  }
  return out;
}

}  // namespace sbx::cli
