// Patch: git's extended headers around unified hunks.
#include "core/workspace/patch.h"

#include <array>
#include <cstdio>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::workspace {
namespace {

constexpr std::size_t kBinaryProbe = 8000;

/// git knows regular files and links; "" for everything else.
std::string_view git_mode(const DiffSide& side) {
  if (side.type() == S_IFLNK) return "120000";
  if (side.type() != S_IFREG) return "";
  return (side.mode() & S_IXUSR) != 0 ? "100755" : "100644";
}

bool looks_binary(std::string_view content) {
  return content.substr(0, kBinaryProbe).find('\0') != std::string_view::npos;
}

/// One side's text; sets `is_binary`.
Result<std::string> read_side(MergedTree& tree, const DiffSide& side, bool& is_binary) {
  if (side.type() == S_IFLNK) return tree.read_link(side.parent, side.entry);
  if (side.type() != S_IFREG) return std::string();
  if (side.size() > kMaxPatchFile) {
    is_binary = true;
    return std::string();
  }
  SBX_ASSIGN(const UniqueFd file, tree.open_file(side.parent, side.entry));
  Result<std::string> content = sys::read_all(file.get(), Bytes{kMaxPatchFile});
  if (!content.ok() && content.error().code() != Errc::kLimit) return content;
  if (!content.ok() || looks_binary(content.value())) {
    is_binary = true;
    return std::string();
  }
  return content;
}

/// "--- a/x" and "+++ b/x"; a name with a space gets a tab, so that patch(1) sees where it ends.
std::string file_line(std::string_view mark, std::string_view prefix, std::string_view path) {
  const bool has_space = path.find(' ') != std::string_view::npos;
  return text::cat(mark, quote_name(text::cat(prefix, path)), has_space ? "\t\n" : "\n");
}

/// Header lines and hunks of a file that is new, gone, or the same type as before; an empty mode
/// means that side has no file.
std::string one_file(std::string_view path,
                     std::string_view old_mode,
                     std::string_view new_mode,
                     const PatchText& texts) {
  const std::string a = quote_name(text::cat("a/", path));
  const std::string b = quote_name(text::cat("b/", path));
  const std::string head = text::cat("diff --git ", a, " ", b, "\n");
  std::string modes;
  if (old_mode.empty()) modes = text::cat("new file mode ", new_mode, "\n");
  if (new_mode.empty()) modes = text::cat("deleted file mode ", old_mode, "\n");
  if (modes.empty() && old_mode != new_mode) {
    modes = text::cat("old mode ", old_mode, "\nnew mode ", new_mode, "\n");
  }
  if (texts.is_binary) {
    const std::string_view none = "/dev/null";
    return text::cat(head,
                     modes,
                     "Binary files ",
                     old_mode.empty() ? none : std::string_view(a),
                     " and ",
                     new_mode.empty() ? none : std::string_view(b),
                     " differ\n");
  }
  const auto before = lines_of(texts.before);
  const auto after = lines_of(texts.after);
  const std::string hunks = unified_hunks(before, after, diff_lines(before, after));
  if (hunks.empty()) return modes.empty() ? "" : head + modes;
  const std::string from = old_mode.empty() ? "--- /dev/null\n" : file_line("--- ", "a/", path);
  const std::string to = new_mode.empty() ? "+++ /dev/null\n" : file_line("+++ ", "b/", path);
  return text::cat(head, modes, from, to, hunks);
}

}  // namespace

std::string quote_name(std::string_view name) {
  constexpr std::string_view kEscaped = "\a\b\t\n\v\f\r\"\\";
  constexpr std::string_view kLetters = "abtnvfr\"\\";
  std::string quoted = "\"";
  bool is_needed = false;
  for (const char c : name) {
    const std::size_t at = kEscaped.find(c);
    const auto byte = static_cast<unsigned char>(c);
    if (at != std::string_view::npos) {
      quoted += '\\';
      quoted += kLetters[at];
    } else if (byte < 0x20 || byte >= 0x7f) {
      std::array<char, 5> octal{};
      static_cast<void>(std::snprintf(octal.data(), octal.size(), "\\%03o", byte));
      quoted += octal.data();
    } else {
      quoted += c;
      continue;
    }
    is_needed = true;
  }
  return is_needed ? quoted + '"' : std::string(name);
}

Result<PatchText> read_texts(MergedTree& before, MergedTree& after, const Change& change) {
  PatchText texts;
  SBX_ASSIGN(texts.before, read_side(before, change.before, texts.is_binary));
  SBX_ASSIGN(texts.after, read_side(after, change.after, texts.is_binary));
  return texts;
}

std::optional<LineCount> count_lines(const PatchText& texts) {
  if (texts.is_binary) return std::nullopt;
  return count_lines(diff_lines(lines_of(texts.before), lines_of(texts.after)));
}

std::string format_patch(const Change& change, std::string_view path, const PatchText& texts) {
  const std::string_view old_mode = git_mode(change.before);
  const std::string_view new_mode = git_mode(change.after);
  if (old_mode.empty() && new_mode.empty()) return "";
  const bool is_split = !old_mode.empty() && !new_mode.empty() && change.has_type;
  if (!is_split) return one_file(path, old_mode, new_mode, texts);
  return one_file(path, old_mode, "", {texts.before, "", texts.is_binary}) +
         one_file(path, "", new_mode, {"", texts.after, texts.is_binary});
}

}  // namespace sbx::workspace
