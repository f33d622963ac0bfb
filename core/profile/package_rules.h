// Package rules: what the names and versions of packages look like, and what of a spec that a
// person or a hostile profile wrote is refused: options, URLs, paths, repositories.
#pragma once

#include <string>
#include <string_view>

namespace sbx::profile {

/// "NAME", "NAME[EXTRA,…]" and versions as in "numpy>=1.26,<2" (the part of PEP 508 without URLs
/// and markers). The end of a sentence, as in rules.h.
std::string pip_spec_complaint(std::string_view spec);
/// "NAME", "@SCOPE/NAME", with "@" and a version, a range or a tag behind it.
std::string npm_spec_complaint(std::string_view spec);
/// A name with "*" for any characters, after "pip:" or "npm:" for one kind only.
std::string package_pattern_complaint(std::string_view pattern);

/// "numpy>=1,<2" for "numpy >= 1, < 2": blanks stay only where they part two words.
std::string without_spaces(std::string_view text);

/// The name in a spec that is none to complain about.
std::string_view pip_spec_name(std::string_view spec);
std::string_view npm_spec_name(std::string_view spec);

/// Whether `name` is one that a package can have (a lock file, which anybody may have written,
/// says so too).
bool is_pip_name(std::string_view name);
bool is_npm_name(std::string_view name);
/// Whether it is one exact version: letters, digits and . + ! _ - only.
bool is_package_version(std::string_view version);

}  // namespace sbx::profile
