// Help: turns rows of the verb table into the text people read.
#include "cli/help.h"

#include <algorithm>
#include <array>
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

namespace {

/// A group of so many verbs that the overview of all has one entry for it.
struct LargeGroup {
  std::string_view name;
  std::string_view summary;
};
constexpr std::array kLargeGroups = {
    LargeGroup{"session", "Workspaces that keep their files between commands"},
    LargeGroup{"image", "Root file systems to run programs in"},
};

const LargeGroup* large_group_of(const Verb& verb) {
  const auto* const found = std::ranges::find_if(
      kLargeGroups, [&](const LargeGroup& each) { return in_group(verb, each.name); });
  return found == kLargeGroups.end() ? nullptr : found;
}

std::string entry(std::string_view left, std::string_view right, std::size_t column) {
  std::string out = "  ";
  out += left;
  out.append(out.size() < column ? column - out.size() : 1, ' ');
  return out + wrap(right, column, column) + '\n';
}

/// "session VERB", and what VERB can be.
std::string group_entry(const LargeGroup& group, std::size_t column) {
  std::string verbs_of_it(group.summary);
  std::string_view before = ": ";
  for (const Verb* verb : verbs()) {
    if (!in_group(*verb, group.name)) continue;
    verbs_of_it += before;
    verbs_of_it += verb->name.substr(group.name.size() + 1);
    before = ", ";
  }
  return entry(std::string(group.name) + " VERB", verbs_of_it, column);
}

}  // namespace

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
  constexpr std::size_t kGap = 4;  // two blanks on each side of a name
  const LargeGroup* last = nullptr;
  std::size_t column = 20;
  for (const Verb* verb : verbs()) {
    const bool is_shown = group.empty() ? large_group_of(*verb) == nullptr : in_group(*verb, group);
    if (is_shown) column = std::max(column, verb->name.size() + kGap);
  }
  for (const Verb* verb : verbs()) {
    if (!in_group(*verb, group)) continue;
    const LargeGroup* large = group.empty() ? large_group_of(*verb) : nullptr;
    if (large == nullptr) {
      out += entry(verb->name, verb->summary, column);
    } else if (large != last) {
      out += group_entry(*large, column);
    }
    last = large;
  }
  out += heading("More", colour);
  out += "  sbx VERB --help     flags, defaults and examples of one verb\n";
  if (group.empty()) {
    out += "  sbx session --help  the verbs of sessions, a line for each\n";
    out += "  sbx image --help    the verbs of images\n";
  }
  out += "  man sbx             exit status, environment, files\n";
  if (group.empty()) {
    out += heading("Examples", colour);
    out += "  sbx run -c 'print(6*7)'\n";
    out += "  sbx run -i data.csv -o out report.py\n";
    out += "  sbx run -p bash -- ls -l /\n";
    out += "  sbx session start dev\n";
    out += "  sbx session exec dev -- git clone /src/project\n";
  }
  return out;
}

}  // namespace sbx::cli
