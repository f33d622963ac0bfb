// Progress: a line on stderr that says how far a batch has come, where stderr is a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "core/run/batch.h"

namespace sbx::cli {

/// The line for a terminal of `columns`, without control characters: bar, numbers, rate and what is
/// left to wait. `elapsed_s` since the batch began. Pure.
std::string progress_line(const run::BatchProgress& progress, double elapsed_s, unsigned columns);

class ProgressBar {
 public:
  /// Draws only where `is_wanted` and stderr is a terminal that is not "dumb".
  explicit ProgressBar(bool is_wanted);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Draws it anew, at most about ten times a second.
  void show(const run::BatchProgress& progress);
  /// Takes it away, for a message or for good; the next show() draws again.
  void clear();

 private:
  bool is_on_;
  bool has_colour_;
  bool is_drawn_ = false;
  std::int64_t began_ns_;
  std::int64_t drawn_ns_ = 0;
};

}  // namespace sbx::cli
