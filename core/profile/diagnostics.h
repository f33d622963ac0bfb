// Diagnostics: collects the mistakes of one profile file, flag or variable.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/profile/profile.h"

namespace sbx::profile {

/// Both count from 1; 0 means "as a whole". Columns are characters, not bytes.
struct Position {
  int line = 0;
  int column = 0;
};

/// A cap on the number keeps a hostile file from making a huge report.
class Diagnostics {
 public:
  static constexpr std::size_t kMost = 100;

  explicit Diagnostics(std::string file) : file_(std::move(file)) {}

  void add(Position at, std::string message);
  const std::string& file() const { return file_; }
  bool empty() const { return found_.empty(); }
  bool full() const { return found_.size() >= kMost; }
  /// In order of position.
  std::vector<Diagnostic> take();

 private:
  std::string file_;
  std::vector<Diagnostic> found_;
};

/// The one Error for a failed load: the first mistake, and in the hint how to see the others.
Error to_error(const std::vector<Diagnostic>& found, const std::string& name_or_path);

}  // namespace sbx::profile
