// Package rules: see package_rules.h.
#include "core/profile/package_rules.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/base/text.h"

namespace sbx::profile {
namespace {

constexpr std::size_t kMostName = 214;  // npm's own limit
constexpr std::size_t kMostSpec = 400;
constexpr std::size_t kMostVersion = 128;

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool holds_only(std::string_view text, std::string_view more) {
  return std::all_of(text.begin(), text.end(), [more](char c) {
    return is_alnum(c) || more.find(c) != std::string_view::npos;
  });
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// What pip and npm would take for something else than a package of that name.
std::string foreign_complaint(std::string_view spec) {
  if (spec.empty()) return "must not be empty";
  if (spec.size() > kMostSpec) return "is longer than 400 characters";
  if (spec.front() == '-') return "is an option, not the name of a package";
  const bool is_control = std::any_of(
      spec.begin(), spec.end(), [](char c) { return static_cast<unsigned char>(c) < 32; });
  if (is_control) return "must not hold control characters";
  if (contains(spec, "://") || spec.starts_with("git+") || spec.starts_with("git@")) {
    return "is a URL: packages are taken by name from packages.source only";
  }
  const bool is_archive = spec.ends_with(".whl") || spec.ends_with(".tgz") ||
                          spec.ends_with(".zip") || spec.ends_with(".tar.gz");
  if (spec.front() == '.' || spec.front() == '/' || spec.front() == '~' || is_archive) {
    return "is a path: put the file into the directory packages.source, and name the package";
  }
  return {};
}

/// The length of a comparison such as ">=" at the start; 0: there is none.
std::size_t operator_size(std::string_view text) {
  constexpr std::array<std::string_view, 8> kOperators{
      "===", "==", "!=", "<=", ">=", "~=", "<", ">"};
  for (const std::string_view each : kOperators) {
    if (text.starts_with(each)) return each.size();
  }
  return 0;
}

bool is_pip_versions(std::string_view text) {
  for (const std::string_view part : text::split(text, ',')) {
    const std::size_t size = operator_size(part);
    const std::string_view version = part.substr(size);
    if (size == 0 || version.empty() || version.size() > kMostVersion) return false;
    if (!is_alnum(version.front()) || !holds_only(version, ".*+!_-")) return false;
  }
  return true;
}

bool is_extras(std::string_view text) {
  for (const std::string_view extra : text::split(text, ',')) {
    if (!is_pip_name(extra)) return false;
  }
  return true;
}

}  // namespace

std::string without_spaces(std::string_view text) {
  constexpr std::string_view kMarks = "<>=!~,[]";
  text = text::trim(text);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') {
      const std::size_t next = text.find_first_not_of(' ', i);
      const bool is_beside_mark = kMarks.find(out.back()) != std::string_view::npos ||
                                  kMarks.find(text[next]) != std::string_view::npos;
      if (is_beside_mark || out.back() == ' ') continue;
    }
    out += text[i];
  }
  return out;
}

bool is_pip_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostName && is_alnum(name.front()) &&
         is_alnum(name.back()) && holds_only(name, "._-");
}

bool is_npm_name(std::string_view name) {
  if (name.size() > kMostName) return false;
  const auto is_part = [](std::string_view part) {
    return !part.empty() && is_alnum(part.front()) && holds_only(part, "._-");
  };
  if (!name.starts_with('@')) return is_part(name);
  const std::size_t slash = name.find('/');
  return slash != std::string_view::npos && is_part(name.substr(1, slash - 1)) &&
         is_part(name.substr(slash + 1));
}

bool is_package_version(std::string_view version) {
  return !version.empty() && version.size() <= kMostVersion && is_alnum(version.front()) &&
         holds_only(version, ".+!_-");
}

std::string_view pip_spec_name(std::string_view spec) {
  return spec.substr(0, spec.find_first_of("[=!<>~ "));
}

std::string_view npm_spec_name(std::string_view spec) {
  return spec.substr(0, spec.find('@', 1));
}

std::string pip_spec_complaint(std::string_view spec) {
  const std::string clean = without_spaces(spec);
  spec = clean;
  if (std::string complaint = foreign_complaint(spec); !complaint.empty()) return complaint;
  if (contains(spec, "@") || contains(spec, ":") || contains(spec, "/")) {
    return "is a URL or a path: packages are taken by name from packages.source only";
  }
  if (contains(spec, ";")) {
    return "has a marker behind \";\": leave it out, a profile is for one interpreter";
  }
  const std::string_view name = pip_spec_name(spec);
  std::string_view rest = spec.substr(name.size());
  bool is_valid = is_pip_name(name);
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    is_valid = is_valid && end != std::string_view::npos && is_extras(rest.substr(1, end - 1));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  if (!rest.empty()) is_valid = is_valid && is_pip_versions(rest);
  if (!is_valid) {
    return "is no Python package: a name, and versions as in numpy==1.26.4 or numpy>=1.26,<2";
  }
  return {};
}

std::string npm_spec_complaint(std::string_view spec) {
  if (std::string complaint = foreign_complaint(spec); !complaint.empty()) return complaint;
  const std::string_view name = npm_spec_name(spec);
  if (contains(spec, ":") || contains(spec.substr(name.size()), "/") ||
      (!spec.starts_with('@') && contains(name, "/"))) {
    return "is a URL, a path or another name: packages are taken by name from packages.source only";
  }
  bool is_valid = is_npm_name(name);
  if (name.size() < spec.size()) {
    const std::string_view range = spec.substr(name.size() + 1);
    is_valid = is_valid && !range.empty() && range.size() <= kMostVersion && range.front() != '-' &&
               holds_only(range, ".^~<>=|*+ -_");
  }
  if (!is_valid) {
    return "is no Node.js package: a name such as left-pad or @types/node, and a version as in "
           "left-pad@1.3.0 or left-pad@^1.2";
  }
  return {};
}

std::string package_pattern_complaint(std::string_view pattern) {
  std::string_view name = pattern;
  if (name.starts_with("pip:") || name.starts_with("npm:")) name.remove_prefix(4);
  if (name.empty()) return "must not be empty";
  if (name.size() > kMostName) return "is longer than 214 characters";
  const bool is_valid = (is_alnum(name.front()) || name.front() == '@' || name.front() == '*') &&
                        holds_only(name, "*@/._-");
  if (!is_valid) {
    return "is no pattern of package names: letters, digits, . _ - and * for any characters, after "
           "pip: or npm: for one kind only; versions stand in packages.pip and packages.npm";
  }
  return {};
}

}  // namespace sbx::profile
