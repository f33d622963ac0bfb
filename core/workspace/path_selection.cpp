// Path selection: literal paths first, so that a name with '[' in it can be named, then globs.
#include "core/workspace/path_selection.h"

#include <fnmatch.h>

#include "core/base/text.h"

namespace sbx::workspace {
namespace {

bool is_at_or_below(std::string_view path, std::string_view dir) {
  if (dir.empty() || path == dir) return true;
  return path.size() > dir.size() && path.starts_with(dir) && path[dir.size()] == '/';
}

/// Whether the glob matches `path` or one of the directories that it is in.
bool matches_above(const std::string& pattern, std::string_view path) {
  for (std::size_t end = path.find('/');; end = path.find('/', end + 1)) {
    const std::string part(path.substr(0, end));
    if (::fnmatch(pattern.c_str(), part.c_str(), FNM_PATHNAME) == 0) return true;
    if (end == std::string_view::npos) return false;
  }
}

}  // namespace

Result<std::string> inside_path(std::string_view text, std::string_view base) {
  std::string path(text.starts_with('/') ? "" : base);
  for (const std::string_view part : text::split(text, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      return Error(Errc::kUsage, text::cat("'..' in ", text))
          .with_hint("give the path as it is inside, e.g. /work/file");
    }
    if (!path.empty()) path += '/';
    path += part;
  }
  return path;
}

bool PathSelection::has(std::string_view path) const {
  used_.resize(patterns_.size());
  bool found = patterns_.empty();
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    if (!is_at_or_below(path, patterns_[i]) && !matches_above(patterns_[i], path)) continue;
    used_[i] = true;
    found = true;
  }
  return found;
}

std::string PathSelection::unused() const {
  used_.resize(patterns_.size());
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    if (!used_[i]) return patterns_[i];
  }
  return "";
}

}  // namespace sbx::workspace
