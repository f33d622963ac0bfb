// Diff text: see diff_text.h.
#include "core/session/diff_text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <vector>

#include "core/base/text.h"
#include "core/workspace/patch.h"

#include <nlohmann/json.hpp>

namespace sbx::session {
namespace {

using workspace::Change;
using workspace::DiffSide;

std::string octal(mode_t mode) {
  std::array<char, 16> digits{};
  static_cast<void>(std::snprintf(digits.data(), digits.size(), "%04o", mode));
  return digits.data();
}

std::string_view type_name(mode_t type) {
  switch (type) {
    case S_IFREG:
      return "file";
    case S_IFDIR:
      return "directory";
    case S_IFLNK:
      return "symlink";
    case S_IFIFO:
      return "fifo";
    case S_IFSOCK:
      return "socket";
    default:
      return "device";
  }
}

std::string_view kind_name(Change::Kind kind) {
  switch (kind) {
    case Change::Kind::kAdded:
      return "added";
    case Change::Kind::kDeleted:
      return "deleted";
    case Change::Kind::kChanged:
      break;
  }
  return "changed";
}

/// "content", "mode", ...: what of it changed.
std::vector<std::string> what_of(const Change& change) {
  std::vector<std::string> what;
  if (change.has_type) what.emplace_back("type");
  if (change.has_content) what.emplace_back("content");
  if (change.has_mode) what.emplace_back("mode");
  if (change.has_owner) what.emplace_back("owner");
  if (change.has_attributes) what.emplace_back("attributes");
  return what;
}

/// "M /work/a (content, mode 0644 -> 0755)"
std::string name_line(const std::string& path, const Change& change) {
  const bool is_deleted = change.kind == Change::Kind::kDeleted;
  const DiffSide& side = is_deleted ? change.before : change.after;
  std::string line = is_deleted ? "D " : change.kind == Change::Kind::kAdded ? "A " : "M ";
  line += text::escape(path);
  if (side.entry.is_dir()) line += '/';
  std::vector<std::string> notes = what_of(change);
  for (std::string& note : notes) {
    if (note == "mode") {
      note = text::cat("mode ", octal(change.before.mode()), " -> ", octal(change.after.mode()));
    } else if (note == "type") {
      note = text::cat(type_name(change.before.type()), " -> ", type_name(change.after.type()));
    }
  }
  if (notes == std::vector<std::string>{"content"}) notes.clear();  // what one expects
  if (!notes.empty()) line += text::cat(" (", text::join(notes, ", "), ")");
  return line + '\n';
}

std::string json_line(const std::string& path, const Change& change) {
  nlohmann::ordered_json line;
  line["change"] = kind_name(change.kind);
  line["path"] = path;
  if (!text::is_utf8(path)) line["path_base64"] = text::base64(path);
  const auto add_side = [&line](std::string_view prefix, const DiffSide& side) {
    line[text::cat(prefix, "type")] = type_name(side.type());
    line[text::cat(prefix, "mode")] = octal(side.mode());
    if (side.type() == S_IFREG) line[text::cat(prefix, "size")] = side.size();
  };
  if (change.after.is_there()) add_side("", change.after);
  if (change.before.is_there()) add_side("old_", change.before);
  if (change.kind == Change::Kind::kChanged) line["what"] = what_of(change);
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

/// At most 40 signs, in the proportion of the two.
std::string bar(std::uint64_t added, std::uint64_t deleted) {
  constexpr std::uint64_t kWidth = 40;
  const std::uint64_t sum = added + deleted;
  const auto scaled = [&](std::uint64_t n) {
    if (sum <= kWidth || n == 0) return n;
    return std::max<std::uint64_t>(1, n * kWidth / sum);
  };
  return std::string(scaled(added), '+') + std::string(scaled(deleted), '-');
}

/// A patch for a terminal: control characters of names and contents are shown, not obeyed.
std::string escape_lines(std::string_view patch) {
  std::string out;
  for (const std::string_view line : workspace::lines_of(patch)) {
    const bool has_end = line.ends_with('\n');
    const std::string_view body = has_end ? line.substr(0, line.size() - 1) : line;
    for (std::size_t at = 0; at <= body.size();) {  // tabs are what they are
      const std::size_t tab = std::min(body.find('\t', at), body.size());
      out += text::escape(body.substr(at, tab - at));
      if (tab < body.size()) out += '\t';
      at = tab + 1;
    }
    if (has_end) out += '\n';
  }
  return out;
}

}  // namespace

std::string inside_path(const SessionTree& tree, std::string_view path) {
  return tree.target.empty() ? text::cat("/", path) : text::cat("/", tree.target, "/", path);
}

Result<std::string> DiffText::of(SessionTree& tree, const Change& change) {
  const std::string path = inside_path(tree, change.path);
  switch (style_) {
    case DiffStyle::kNames:
      return name_line(path, change);
    case DiffStyle::kJson:
      return json_line(path, change);
    case DiffStyle::kStat:
      return stat_of(tree, change);
    case DiffStyle::kPatch:
      break;
  }
  return patch_of(tree, change);
}

Result<std::string> DiffText::stat_of(SessionTree& tree, const Change& change) {
  const bool is_dir = change.before.entry.is_dir() || change.after.entry.is_dir();
  if (is_dir && !change.has_type) return std::string();
  ++files_;
  const std::string head = text::cat(" ", text::escape(inside_path(tree, change.path)), " | ");
  SBX_ASSIGN(const workspace::PatchText texts,
             workspace::read_texts(tree.before, tree.after, change));
  const std::optional<workspace::LineCount> lines = workspace::count_lines(texts);
  if (!lines.has_value()) {
    return text::cat(head, "Bin ", change.before.size(), " -> ", change.after.size(), " bytes\n");
  }
  added_ += lines->added;
  deleted_ += lines->deleted;
  const std::string signs = bar(lines->added, lines->deleted);
  return text::cat(head, lines->added + lines->deleted, signs.empty() ? "" : " ", signs, "\n");
}

Result<std::string> DiffText::patch_of(SessionTree& tree, const Change& change) {
  // Owners, attributes and finer modes are nothing that git knows: no need to read the file.
  const bool is_known = change.kind != Change::Kind::kChanged || change.has_type ||
                        change.has_content || change.has_mode;
  if (!is_known) return std::string();
  SBX_ASSIGN(const workspace::PatchText texts,
             workspace::read_texts(tree.before, tree.after, change));
  const std::string path = inside_path(tree, change.path).substr(1);
  const std::string patch = workspace::format_patch(change, path, texts);
  return is_terminal_ ? escape_lines(patch) : patch;
}

std::string DiffText::end() const {
  if (style_ != DiffStyle::kStat) return "";
  const auto counted = [](std::uint64_t n, std::string_view one) {
    return text::cat(n, " ", one, n == 1 ? "" : "s");
  };
  return text::cat(" ",
                   counted(files_, "file"),
                   " changed, ",
                   counted(added_, "line"),
                   " added, ",
                   counted(deleted_, "line"),
                   " deleted\n");
}

Status print_diff(SessionTrees& trees,
                  const workspace::PathSelection& chosen,
                  DiffText& text,
                  const AddText& add) {
  for (SessionTree& tree : trees.trees) {
    workspace::DiffOptions options;
    options.shared = tree.shared;
    options.has_owners = tree.host.empty();
    options.skip = [&](const std::string& path) { return is_own(trees, tree, path); };
    SBX_TRY(workspace::diff_trees(
        tree.before, tree.after, options, [&](const Change& change) -> Status {
          if (!chosen.has(std::string_view(inside_path(tree, change.path)).substr(1))) return {};
          Result<std::string> piece = text.of(tree, change);
          // Of a running session: removed while it was looked at.
          if (!piece.ok() && piece.error().sys_errno() == ENOENT) return {};
          if (!piece.ok()) return std::move(piece).error();
          return add(piece.value());
        }));
  }
  return add(text.end());
}

}  // namespace sbx::session
