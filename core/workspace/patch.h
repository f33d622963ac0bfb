// Patch: changes of text files as git prints and applies them ("git apply", "patch -p1").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/workspace/line_diff.h"
#include "core/workspace/tree_diff.h"

namespace sbx::workspace {

/// Files beyond this are treated as binary ones.
inline constexpr std::uint64_t kMaxPatchFile = std::uint64_t{16} << 20U;

/// A name as git writes it: as it is, or in double quotes with C escapes and octal bytes where it
/// has control characters, '"', '\' or bytes beyond ASCII (core.quotePath).
std::string quote_name(std::string_view name);

/// Both contents of a change, as far as a patch can show them.
struct PatchText {
  std::string before;
  std::string after;
  bool is_binary = false;  ///< a NUL in the first 8,000 bytes (git's rule), or too big
};
/// Reads them: of regular files the content, of links the text; "" for a side that is neither.
Result<PatchText> read_texts(MergedTree& before, MergedTree& after, const Change& change);

/// Lines added and deleted; nullopt for a binary file.
std::optional<LineCount> count_lines(const PatchText& texts);

/// The change under the name `path` (without a leading '/'): header with modes, then hunks, or
/// "Binary files a/x and b/x differ". A changed type is a deletion and a creation. "" for what git
/// does not know: directories, nodes, owners, attributes, and modes beyond the owner's x bit.
std::string format_patch(const Change& change, std::string_view path, const PatchText& texts);

}  // namespace sbx::workspace
