// Path selection: the paths that a user named on a command line, as a question about others. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace sbx::workspace {

/// An inside path as the user wrote it ("/work/a/", "work/a", "./a" below `base`) as it is in
/// trees: without a leading or trailing '/', "" for the root. kUsage for one with "..".
Result<std::string> inside_path(std::string_view text, std::string_view base);

class PathSelection {
 public:
  /// Nothing named: everything is chosen. Each pattern is a path, or has *, ? or [...] as in
  /// glob(7) where '*' does not match a '/'. A directory stands for everything below it.
  explicit PathSelection(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}

  bool is_everything() const { return patterns_.empty(); }
  /// Whether `path`, or a directory that it is in, was named.
  bool has(std::string_view path) const;
  /// The first pattern that has() never said yes for; "" when there is none.
  std::string unused() const;

 private:
  std::vector<std::string> patterns_;
  mutable std::vector<bool> used_;
};

}  // namespace sbx::workspace
