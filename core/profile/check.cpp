// Check: cross-field rules, one function each.
#include "core/profile/check.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/base/text.h"
#include "core/profile/rules.h"
#include "core/profile/show.h"

namespace sbx::profile {
namespace {

void check_language(const Profile& profile, std::vector<Diagnostic>& found) {
  const Language& language = profile.language;
  if (!language.interpreter.empty() && language.interpreter.front().empty()) {
    found.push_back(at_origin(profile,
                              "language.interpreter",
                              "language.interpreter: the command itself must not be empty"));
  }
  if (!language.path.path.empty() && language.interpreter.empty() && language.compile.empty()) {
    found.push_back(at_origin(profile,
                              "language.path",
                              "language.path: the profile has no interpreter and no compiler that "
                              "it could take the place of"));
  }
  if (language.compile.empty()) return;
  const bool has_source =
      std::any_of(language.compile.begin(), language.compile.end(), [](const std::string& word) {
        return word.find("{source}") != std::string::npos;
      });
  if (language.compile.front().empty() || !has_source) {
    found.push_back(at_origin(profile,
                              "language.compile",
                              "language.compile: expected a command with {source} in one of its "
                              "words, such as [cc, -o, \"{program}\", \"{source}\"]"));
  }
}

/// Each is a process, a log and a row in what `show` prints.
void check_counts(const Profile& profile, std::vector<Diagnostic>& found) {
  constexpr std::size_t kMostServices = 32;
  constexpr std::size_t kMostLabels = 64;
  if (profile.services.size() > kMostServices) {
    const Service& over = profile.services[kMostServices];
    found.push_back(at_origin(profile,
                              text::cat("services.", over.name),
                              text::cat("services: more than ", kMostServices, " of them")));
  }
  if (profile.labels.size() > kMostLabels) {
    found.push_back(at_origin(profile,
                              text::cat("labels.", profile.labels.rbegin()->first),
                              text::cat("labels: more than ", kMostLabels, " of them")));
  }
}

std::string without_links(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  return error ? path : real.string();
}

/// sbx's own directory that `path` shows or lies in; empty: none.
std::string private_dir_of(const std::string& path, const std::vector<std::string>& private_dirs) {
  const std::string source = without_links(path);
  for (const std::string& dir : private_dirs) {
    if (dir.empty()) continue;
    const std::string own = without_links(dir);
    if (is_within(source, own) || is_within(own, source)) return dir;
  }
  return {};
}

/// A sandbox that sees sbx's own state or sockets could act as its user.
void check_private(const Profile& profile,
                   const std::vector<std::string>& private_dirs,
                   std::vector<Diagnostic>& found) {
  for (const Mount& mount : profile.mounts) {
    const std::string own = private_dir_of(mount.source, private_dirs);
    if (own.empty()) continue;
    found.push_back(at_origin(profile,
                              text::cat("mounts.", mount.target),
                              text::cat('\'',
                                        text::escape(mount.source),
                                        "' would show sbx's own directory ",
                                        text::escape(own),
                                        " inside: mount only the directories below it that are "
                                        "needed")));
  }
  const std::string& source = profile.packages.source.path;
  if (source.empty()) return;
  const std::string own = private_dir_of(source, private_dirs);
  if (own.empty()) return;
  found.push_back(at_origin(profile,
                            "packages.source",
                            text::cat("packages.source: '",
                                      text::escape(source),
                                      "' would show sbx's own directory ",
                                      text::escape(own),
                                      " to what is installed: take a directory of its own")));
}

/// The host's /proc shows its processes; where a sandbox is being built, it is already another one.
void check_live_sources(const Profile& profile, std::vector<Diagnostic>& found) {
  for (const Mount& mount : profile.mounts) {
    if (!is_within(without_links(mount.source), "/proc")) continue;
    found.push_back(at_origin(profile,
                              text::cat("mounts.", mount.target),
                              text::cat('\'',
                                        text::escape(mount.source),
                                        "' is in the host's /proc, which no sandbox sees: copy a "
                                        "single file of it in with -i")));
  }
}

}  // namespace

// "FILE:3:5" taken apart; a flag or variable has no line.
Diagnostic at_origin(const Profile& profile, std::string_view key, std::string message) {
  Diagnostic diagnostic;
  diagnostic.message = std::move(message);
  const auto origin = profile.origins.find(key);
  diagnostic.file = origin == profile.origins.end() ? profile.file : origin->second.where;
  const auto take_number = [&](int& number) {
    const std::size_t colon = diagnostic.file.rfind(':');
    if (colon == std::string::npos) return false;
    const char* begin = diagnostic.file.data() + colon + 1;
    const char* end = diagnostic.file.data() + diagnostic.file.size();
    if (begin == end || std::from_chars(begin, end, number).ptr != end) return false;
    diagnostic.file.resize(colon);
    return true;
  };
  int column = 0;
  int line = 0;
  const std::string whole = diagnostic.file;
  if (take_number(column) && take_number(line)) {
    diagnostic.line = line;
    diagnostic.column = column;
  } else {
    diagnostic.file = whole;
  }
  return diagnostic;
}

std::vector<Diagnostic> check_whole(const Profile& profile,
                                    const std::vector<std::string>& private_dirs) {
  std::vector<Diagnostic> found;
  check_language(profile, found);
  check_counts(profile, found);
  check_private(profile, private_dirs, found);
  check_live_sources(profile, found);
  return found;
}

}  // namespace sbx::profile
