// Line diff: equal ends are cut off, lines become numbers, the middle goes through Myers' search.
#include "core/workspace/line_diff.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/base/text.h"

namespace sbx::workspace {
namespace {

using Number = std::uint32_t;

/// Equal lines get equal numbers.
class Numbers {
 public:
  std::vector<Number> of(std::span<const std::string_view> lines) {
    std::vector<Number> numbers;
    numbers.reserve(lines.size());
    for (const std::string_view line : lines) {
      numbers.push_back(known_.emplace(line, static_cast<Number>(known_.size())).first->second);
    }
    return numbers;
  }

 private:
  std::unordered_map<std::string_view, Number> known_;
};

/// Myers' greedy search, forwards, with every step's frontier kept for the way back.
class Search {
 public:
  Search(const std::vector<Number>& a, const std::vector<Number>& b) : a_(a), b_(b) {}

  /// False when it takes more than `max_edits`.
  bool run(std::size_t max_edits) {
    const auto limit = static_cast<std::ptrdiff_t>(std::min(max_edits, a_.size() + b_.size()));
    // frontier[k + limit + 1]: the furthest x on diagonal k = x - y.
    std::vector<std::int32_t> frontier(static_cast<std::size_t>(2 * limit + 3), 0);
    const auto at = [&](std::ptrdiff_t k) -> std::int32_t& {
      return frontier[static_cast<std::size_t>(k + limit + 1)];
    };
    for (std::ptrdiff_t d = 0; d <= limit; ++d) {
      for (std::ptrdiff_t k = -d; k <= d; k += 2) {
        const bool is_down = k == -d || (k != d && at(k - 1) < at(k + 1));
        std::ptrdiff_t x = is_down ? at(k + 1) : at(k - 1) + 1;
        x = slide(x, x - k);
        at(k) = static_cast<std::int32_t>(x);
        if (x >= size(a_) && x - k >= size(b_)) {
          steps_.emplace_back();  // the last one's frontier is not needed
          return true;
        }
      }
      std::vector<std::int32_t> step;
      for (std::ptrdiff_t k = -d; k <= d; ++k) {
        step.push_back(at(k));
      }
      steps_.push_back(std::move(step));
    }
    return false;
  }

  /// Marks the edits on the way back from the end.
  void mark(LineDiff& diff, std::size_t offset) const {
    std::ptrdiff_t x = size(a_);
    std::ptrdiff_t y = size(b_);
    for (auto d = static_cast<std::ptrdiff_t>(steps_.size()) - 1; d > 0; --d) {
      const std::ptrdiff_t k = x - y;
      const bool is_down = k == -d || (k != d && reached(d, k - 1) < reached(d, k + 1));
      const std::ptrdiff_t from = is_down ? k + 1 : k - 1;
      x = reached(d, from);
      y = x - from;
      if (is_down) {
        diff.added[offset + static_cast<std::size_t>(y)] = true;
      } else {
        diff.deleted[offset + static_cast<std::size_t>(x)] = true;
      }
    }
  }

 private:
  static std::ptrdiff_t size(const std::vector<Number>& v) {
    return static_cast<std::ptrdiff_t>(v.size());
  }

  /// The furthest x on a diagonal before the edit `d`; -1 where none was.
  std::ptrdiff_t reached(std::ptrdiff_t d, std::ptrdiff_t k) const {
    if (k < -(d - 1) || k > d - 1) return -1;
    return steps_[static_cast<std::size_t>(d - 1)][static_cast<std::size_t>(k + d - 1)];
  }

  std::ptrdiff_t slide(std::ptrdiff_t x, std::ptrdiff_t y) const {
    while (x < size(a_) && y < size(b_) &&
           a_[static_cast<std::size_t>(x)] == b_[static_cast<std::size_t>(y)]) {
      ++x;
      ++y;
    }
    return x;
  }

  const std::vector<Number>& a_;
  const std::vector<Number>& b_;
  std::vector<std::vector<std::int32_t>> steps_;
};

void append_line(std::string& out, char mark, std::string_view line) {
  out += mark;
  out += line;
  if (!line.ends_with('\n')) out += "\n\\ No newline at end of file\n";
}

/// "3,4" or "3" for one line; an empty range is named by the line before it.
std::string range(std::size_t begin, std::size_t count) {
  if (count == 1) return std::to_string(begin + 1);
  return text::cat(count == 0 ? begin : begin + 1, ",", count);
}

/// Walks both texts side by side and writes the edits with their context.
class HunkWriter {
 public:
  HunkWriter(const std::vector<std::string_view>& before,
             const std::vector<std::string_view>& after,
             const LineDiff& diff)
      : before_(before), after_(after), diff_(diff) {}

  std::string run() {
    while (!is_end(0)) {
      if (is_edit(0)) {
        write_hunk();
      } else {
        ++i_;
        ++j_;
      }
    }
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kContext = 3;

  /// Whether both texts are over `ahead` lines from here.
  bool is_end(std::size_t ahead) const {
    return i_ + ahead >= before_.size() && j_ + ahead >= after_.size();
  }
  bool is_edit(std::size_t ahead) const {
    return (i_ + ahead < before_.size() && diff_.deleted[i_ + ahead]) ||
           (j_ + ahead < after_.size() && diff_.added[j_ + ahead]);
  }

  void write_hunk() {
    const std::size_t lead = std::min({kContext, i_, j_});
    const std::size_t first_i = i_ - lead;
    const std::size_t first_j = j_ - lead;
    body_.clear();
    for (std::size_t k = first_i; k < i_; ++k) {
      append_line(body_, ' ', before_[k]);
    }
    while (!is_end(0) && write_some()) {
    }
    out_ += text::cat("@@ -", range(first_i, i_ - first_i), " +", range(first_j, j_ - first_j));
    out_ += " @@\n";
    out_ += body_;
  }

  /// One edited line, or the equal ones up to the next edit; false when the hunk ends there.
  bool write_some() {
    if (i_ < before_.size() && diff_.deleted[i_]) {
      append_line(body_, '-', before_[i_++]);
      return true;
    }
    if (j_ < after_.size() && diff_.added[j_]) {
      append_line(body_, '+', after_[j_++]);
      return true;
    }
    std::size_t run = 0;
    while (run <= 2 * kContext && i_ + run < before_.size() && !is_edit(run)) {
      ++run;
    }
    const bool goes_on = !is_end(run) && run <= 2 * kContext;
    const std::size_t take = goes_on ? run : std::min(run, kContext);
    for (std::size_t k = 0; k < take; ++k) {
      append_line(body_, ' ', before_[i_++]);
      ++j_;
    }
    return goes_on;
  }

  const std::vector<std::string_view>& before_;
  const std::vector<std::string_view>& after_;
  const LineDiff& diff_;
  std::size_t i_ = 0;  // the next line of each text
  std::size_t j_ = 0;
  std::string body_;
  std::string out_;
};

}  // namespace

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t size = end == std::string_view::npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

LineDiff diff_lines(const std::vector<std::string_view>& before,
                    const std::vector<std::string_view>& after,
                    std::size_t max_edits) {
  LineDiff diff{std::vector<bool>(before.size()), std::vector<bool>(after.size())};
  std::size_t head = 0;
  const std::size_t shorter = std::min(before.size(), after.size());
  while (head < shorter && before[head] == after[head]) {
    ++head;
  }
  std::size_t tail = 0;
  while (tail < shorter - head &&
         before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) {
    ++tail;
  }
  Numbers numbers;
  const std::vector<Number> a =
      numbers.of(std::span(before).subspan(head, before.size() - head - tail));
  const std::vector<Number> b =
      numbers.of(std::span(after).subspan(head, after.size() - head - tail));
  Search search(a, b);
  if (search.run(max_edits)) {
    search.mark(diff, head);
    return diff;
  }
  std::fill_n(diff.deleted.begin() + static_cast<std::ptrdiff_t>(head), a.size(), true);
  std::fill_n(diff.added.begin() + static_cast<std::ptrdiff_t>(head), b.size(), true);
  return diff;
}

LineCount count_lines(const LineDiff& diff) {
  return {static_cast<std::uint64_t>(std::ranges::count(diff.added, true)),
          static_cast<std::uint64_t>(std::ranges::count(diff.deleted, true))};
}

std::string unified_hunks(const std::vector<std::string_view>& before,
                          const std::vector<std::string_view>& after,
                          const LineDiff& diff) {
  return HunkWriter(before, after, diff).run();
}

}  // namespace sbx::workspace
