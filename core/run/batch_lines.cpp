// Batch lines: see batch_lines.h.
#include "core/run/batch_lines.h"

#include <algorithm>

#include "core/base/text.h"

namespace sbx::run {

namespace {

constexpr std::size_t kForgetAbove = std::size_t{1} << 20U;

}  // namespace

void LineCutter::forget_given() {
  if (begin_ < buffer_.size() && begin_ < kForgetAbove) return;
  buffer_.erase(0, begin_);
  if (buffer_.empty() && buffer_.capacity() > 2 * kForgetAbove) buffer_.shrink_to_fit();
  scanned_ -= begin_;
  begin_ = 0;
}

Result<std::optional<NumberedLine>> LineCutter::next() {
  while (true) {
    const std::size_t from = std::max(begin_, scanned_);
    std::size_t end = buffer_.find('\n', from);
    const bool is_whole = end != std::string::npos;
    if (!is_whole) end = buffer_.size();
    if (end - begin_ > longest_.v) {
      return Error(Errc::kUsage,
                   text::cat("line ", number_ + 1, " is longer than ", to_string(longest_)))
          .with_hint(R"(put big texts into files: "file" and "in" name them)");
    }
    scanned_ = end;
    if (!is_whole && (!is_ended_ || begin_ == end)) {
      forget_given();
      return std::optional<NumberedLine>();
    }
    ++number_;
    std::string_view line = std::string_view(buffer_).substr(begin_, end - begin_);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_blank = text::trim(line).empty();
    std::optional<NumberedLine> found;
    if (!is_blank) found = NumberedLine{number_, std::string(line)};
    begin_ = is_whole ? end + 1 : end;
    scanned_ = begin_;
    if (is_blank) continue;
    forget_given();
    return found;
  }
}

}  // namespace sbx::run
