// Line diff: which lines of two texts are different, and that as hunks of a unified diff. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sbx::workspace {

/// Lines with their '\n'; the last one may lack it.
std::vector<std::string_view> lines_of(std::string_view text);

/// One flag a line: whether it is only in the one text.
struct LineDiff {
  std::vector<bool> deleted;  ///< of the old text
  std::vector<bool> added;    ///< of the new text
};

/// A shortest edit script (E. Myers, "An O(ND) Difference Algorithm", 1986). Beyond `max_edits`
/// edits between the first and the last difference everything there is deleted and added: time
/// stays below lines times `max_edits`, memory below 4 * max_edits^2 bytes. The views must outlive
/// nothing.
inline constexpr std::size_t kMaxEdits = 2000;
LineDiff diff_lines(const std::vector<std::string_view>& before,
                    const std::vector<std::string_view>& after,
                    std::size_t max_edits = kMaxEdits);

struct LineCount {
  std::uint64_t added = 0;
  std::uint64_t deleted = 0;
};
LineCount count_lines(const LineDiff& diff);

/// "@@ -1,3 +1,4 @@" and lines with ' ', '-' and '+', three lines of context; "" without a
/// difference. A last line without '\n' is marked as diff(1) and git do.
std::string unified_hunks(const std::vector<std::string_view>& before,
                          const std::vector<std::string_view>& after,
                          const LineDiff& diff);

}  // namespace sbx::workspace
