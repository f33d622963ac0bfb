// Diagnostics: ordering and wording of collected mistakes.
#include "core/profile/diagnostics.h"

#include <algorithm>
#include <tuple>

#include "core/base/text.h"

namespace sbx::profile {

std::string Diagnostic::to_string() const {
  if (line == 0) return text::cat(file, ": ", message);
  return text::cat(file, ':', line, ':', column, ": ", message);
}

void Diagnostics::add(Position at, std::string message) {
  if (full()) return;
  found_.push_back(Diagnostic{file_, at.line, at.column, std::move(message)});
  if (full()) {
    found_.push_back(
        Diagnostic{file_, at.line, at.column, "too many mistakes, the rest is not shown"});
  }
}

std::vector<Diagnostic> Diagnostics::take() {
  std::stable_sort(found_.begin(), found_.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  return std::exchange(found_, {});
}

Error to_error(const std::vector<Diagnostic>& found, const std::string& name_or_path) {
  Error error(Errc::kUsage, text::escape(found.front().to_string()));
  const auto others = found.size() - 1;
  if (others == 0) return error;
  const std::string more = text::cat(others, others == 1 ? " more mistake" : " more mistakes");
  const bool in_files = std::any_of(
      found.begin(), found.end(), [](const Diagnostic& each) { return each.line != 0; });
  return std::move(error).with_hint(
      in_files
          ? text::cat(more, ", see: sbx profile check ", text::escape(name_or_path))
          : text::cat(
                more, " in flags or variables, the next: ", text::escape(found[1].to_string())));
}

}  // namespace sbx::profile
