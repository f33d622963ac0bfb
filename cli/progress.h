// Progress: a line on stderr that says how far a batch or a copy has come, where stderr is a
// terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/run/batch.h"
#include "core/session/copy.h"

namespace sbx::cli {

/// The line for a terminal of `columns`, without control characters: bar, numbers, rate and what is
/// left to wait. `elapsed_s` since the batch began. Pure.
std::string progress_line(const run::BatchProgress& progress, double elapsed_s, unsigned columns);

/// The same for a copy: bytes, rate, what is left to wait.
std::string progress_line(const session::CopyProgress& progress,
                          double elapsed_s,
                          unsigned columns);

class ProgressBar {
 public:
  /// Draws only where `is_wanted` and stderr is a terminal that is not "dumb".
  explicit ProgressBar(bool is_wanted);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Draws it anew, at most about ten times a second.
  void show(const run::BatchProgress& progress);
  void show(const session::CopyProgress& progress);
  bool is_on() const { return is_on_; }
  /// Takes it away, for a message or for good; the next show() draws again.
  void clear();

 private:
  void draw(const std::function<std::string(double elapsed_s, unsigned columns)>& line_for);

  bool is_on_;
  bool has_colour_;
  bool is_drawn_ = false;
  std::int64_t began_ns_;
  std::int64_t drawn_ns_ = 0;
};

}  // namespace sbx::cli
