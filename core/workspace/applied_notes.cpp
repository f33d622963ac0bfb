// Applied notes: "sbx-applied 1", then a record a file, each ended by a NUL: numbers and the path.
#include "core/workspace/applied_notes.h"

#include <charconv>

#include "core/base/text.h"

namespace sbx::workspace {
namespace {

constexpr std::string_view kFormat = "sbx-applied ";
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

Error rubbish() {
  return {Errc::kProtocol, "the notes of what was applied are damaged"};
}

/// Takes a number and the space behind it off the front.
template <typename T>
bool take_number(std::string_view& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() + text.size() || *end != ' ') return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return true;
}

}  // namespace

AppliedNotes::Mark AppliedNotes::mark_of(const struct stat& st) {
  return {st.st_ino,
          st.st_ctim.tv_sec * kNsPerSecond + st.st_ctim.tv_nsec,
          static_cast<std::uint64_t>(st.st_size)};
}

Result<AppliedNotes> AppliedNotes::parse(std::string_view text) {
  AppliedNotes notes;
  bool is_first = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) return rubbish();
    std::string_view record = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (is_first) {
      if (!record.starts_with(kFormat)) return rubbish();
      if (record != text::cat(kFormat, 1)) {
        return Error(Errc::kUnsupported, "the notes of what was applied are of a newer sbx")
            .with_hint("use that version of sbx");
      }
      is_first = false;
      continue;
    }
    Mark mark;
    const bool is_whole = take_number(record, mark.inode) && take_number(record, mark.changed_ns) &&
                          take_number(record, mark.size) && !record.empty();
    if (!is_whole) return rubbish();
    notes.files_[std::string(record)] = mark;
  }
  return notes;
}

std::string AppliedNotes::to_text() const {
  std::string text = text::cat(kFormat, 1, '\0');
  for (const auto& [path, mark] : files_) {
    text += text::cat(mark.inode, ' ', mark.changed_ns, ' ', mark.size, ' ', path, '\0');
  }
  return text;
}

bool AppliedNotes::is_as_left(const std::string& path, const struct stat& st) const {
  const auto at = files_.find(path);
  return at != files_.end() && at->second == mark_of(st);
}

void AppliedNotes::note(const std::string& path, const struct stat& st) {
  files_[path] = mark_of(st);
}

}  // namespace sbx::workspace
