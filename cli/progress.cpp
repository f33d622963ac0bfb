// Progress: see progress.h.
#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "cli/output.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/supervise/terminal.h"

namespace sbx::cli {
namespace {

constexpr std::int64_t kDrawEveryNs = 100'000'000;
constexpr double kNsPerSecond = 1e9;
constexpr unsigned kUsualColumns = 80;
constexpr unsigned kLongestBar = 30;
constexpr std::string_view kToLineStart = "\r";
constexpr std::string_view kToLineEnd = "\x1b[K";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

bool is_capable_terminal() {
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) != "dumb" && ::isatty(STDERR_FILENO) == 1;
}

std::string one_decimal(double number) {
  const auto tenths = static_cast<std::uint64_t>(std::llround(std::max(number, 0.0) * 10));
  return text::cat(tenths / 10, ".", tenths % 10);
}

/// "12s", "3m 20s", "2h 5m".
std::string rough_time(double seconds) {
  constexpr std::uint64_t kMinute = 60;
  constexpr std::uint64_t kHour = 3600;
  const auto whole = static_cast<std::uint64_t>(std::llround(std::max(seconds, 0.0)));
  if (whole < kMinute) return text::cat(whole, "s");
  if (whole < kHour) return text::cat(whole / kMinute, "m ", whole % kMinute, "s");
  return text::cat(whole / kHour, "h ", whole % kHour / kMinute, "m");
}

/// "12 B", "3.4 MiB".
std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB"};
  constexpr double kStep = 1024;
  if (bytes < 1024) return text::cat(bytes, " B");
  auto size = static_cast<double>(bytes) / kStep;
  std::size_t unit = 0;
  while (size >= kStep && unit + 1 < kUnits.size()) {
    size /= kStep;
    ++unit;
  }
  return text::cat(one_decimal(size), " ", kUnits[unit]);
}

/// The numbers with a bar before them, where there is room and the total is known (not 0).
std::string bar_and(const std::string& numbers,
                    std::uint64_t done,
                    std::uint64_t total,
                    unsigned columns) {
  constexpr unsigned kFrame = 4;  // brackets, a blank, and the last column, which stays empty
  const auto used = static_cast<unsigned>(numbers.size()) + kFrame;
  std::string line;
  if (total > 0 && columns > used + 8) {
    const unsigned width = std::min(kLongestBar, columns - used);
    const double part = static_cast<double>(std::min(done, total)) / static_cast<double>(total);
    const auto full = static_cast<unsigned>(width * part);
    line = text::cat("[", std::string(full, '#'), std::string(width - full, '.'), "] ");
  }
  line += numbers;
  if (line.size() >= columns) line.resize(columns > 0 ? columns - 1 : 0);
  return line;
}

}  // namespace

std::string progress_line(const run::BatchProgress& progress, double elapsed_s, unsigned columns) {
  const std::uint64_t done = progress.counts.finished();
  const std::uint64_t fresh = done - std::min(done, progress.counts.earlier);
  const double rate = elapsed_s > 0 ? static_cast<double>(fresh) / elapsed_s : 0;
  std::string numbers = text::cat(done);
  if (progress.total) numbers += text::cat("/", *progress.total);
  numbers +=
      text::cat(" done, ", progress.counts.failed, " failed, ", progress.running, " running");
  if (fresh > 0) numbers += text::cat(", ", one_decimal(rate), "/s");
  if (fresh > 0 && progress.total && *progress.total > done) {
    numbers += text::cat(", ", rough_time(static_cast<double>(*progress.total - done) / rate));
    numbers += " left";
  }
  return bar_and(numbers, done, progress.total.value_or(0), columns);
}

std::string progress_line(const session::CopyProgress& progress,
                          double elapsed_s,
                          unsigned columns) {
  const double rate = elapsed_s > 0 ? static_cast<double>(progress.bytes) / elapsed_s : 0;
  std::string numbers = size_text(progress.bytes);
  if (progress.total > 0) numbers += text::cat("/", size_text(progress.total));
  if (rate > 0) numbers += text::cat(", ", size_text(static_cast<std::uint64_t>(rate)), "/s");
  if (rate > 0 && progress.total > progress.bytes) {
    const auto left = static_cast<double>(progress.total - progress.bytes);
    numbers += text::cat(", ", rough_time(left / rate), " left");
  }
  return bar_and(numbers, progress.bytes, progress.total, columns);
}

ProgressBar::ProgressBar(bool is_wanted)
    : is_on_(is_wanted && is_capable_terminal()),
      has_colour_(is_on_ && has_colour(Stream::kErr)),
      began_ns_(monotonic_ns()) {}

void ProgressBar::show(const run::BatchProgress& progress) {
  draw([&](double elapsed_s, unsigned columns) {
    return progress_line(progress, elapsed_s, columns);
  });
}

void ProgressBar::show(const session::CopyProgress& progress) {
  draw([&](double elapsed_s, unsigned columns) {
    return progress_line(progress, elapsed_s, columns);
  });
}

void ProgressBar::draw(
    const std::function<std::string(double elapsed_s, unsigned columns)>& line_for) {
  if (!is_on_) return;
  const std::int64_t now = monotonic_ns();
  if (is_drawn_ && now - drawn_ns_ < kDrawEveryNs) return;
  const auto size = supervise::terminal_size(STDERR_FILENO);
  const unsigned columns = size && size->cols > 0 ? size->cols : kUsualColumns;
  const double elapsed_s = static_cast<double>(now - began_ns_) / kNsPerSecond;
  std::string line = text::cat(kToLineStart,
                               has_colour_ ? kDim : std::string_view(),
                               line_for(elapsed_s, columns),
                               has_colour_ ? kPlain : std::string_view(),
                               kToLineEnd);
  (void)print_notice(line);
  is_drawn_ = true;
  drawn_ns_ = now;
}

void ProgressBar::clear() {
  if (!is_drawn_) return;
  (void)print_notice(text::cat(kToLineStart, kToLineEnd));
  is_drawn_ = false;
}

}  // namespace sbx::cli
