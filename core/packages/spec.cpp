// Spec: see spec.h.
#include "core/packages/spec.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"
#include "core/profile/package_rules.h"

namespace sbx::packages {

namespace {

/// "python3.11" of "/usr/bin/python3.11".
std::string_view base_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::string_view without_kind(std::string_view text) {
  return text.substr(4);  // both are as long
}

/// A pattern for `kind`, without what says so; nullopt: it is for the other one.
std::optional<std::string> pattern_for(Kind kind, std::string_view pattern) {
  for (const Kind each : {Kind::kPip, Kind::kNpm}) {
    if (!pattern.starts_with(text::cat(name(each), ':'))) continue;
    if (each != kind) return std::nullopt;
    return folded_name(kind, without_kind(pattern));
  }
  return folded_name(kind, pattern);
}

bool is_named(const std::vector<std::string>& patterns, Kind kind, const std::string& folded) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& each) {
    const std::optional<std::string> pattern = pattern_for(kind, each);
    return pattern.has_value() && is_like(*pattern, folded);
  });
}

Error refused(std::string_view spec, std::string_view complaint) {
  return {Errc::kUsage, text::cat("-P/--package: \"", text::escape(spec), "\" ", complaint)};
}

Status add_one(const std::string& wanted, profile::Profile& profile) {
  std::optional<Kind> kind = kind_of(profile.language);
  std::string_view spec = wanted;
  if (spec.starts_with("pip:") || spec.starts_with("npm:")) {
    kind = spec.starts_with("pip:") ? Kind::kPip : Kind::kNpm;
    spec = without_kind(spec);
  }
  if (!kind.has_value()) {
    return refused(wanted, text::cat("does not say of which kind it is"))
        .with_hint(text::cat("profile ",
                             profile.name,
                             " runs neither Python nor Node.js: -P pip:",
                             text::escape(spec),
                             " or -P npm:",
                             text::escape(spec)));
  }
  const std::string clean = kind == Kind::kPip ? profile::without_spaces(spec) : std::string(spec);
  const std::string complaint =
      kind == Kind::kPip ? profile::pip_spec_complaint(clean) : profile::npm_spec_complaint(clean);
  if (!complaint.empty()) return refused(wanted, complaint);
  std::vector<std::string>& list = kind == Kind::kPip ? profile.packages.pip : profile.packages.npm;
  const std::string folded = folded_name(*kind, spec_name(*kind, clean));
  std::erase_if(list, [&](const std::string& each) {
    return folded_name(*kind, spec_name(*kind, each)) == folded;
  });
  list.push_back(clean);
  return {};
}

}  // namespace

std::string_view name(Kind kind) {
  return kind == Kind::kPip ? "pip" : "npm";
}

std::string_view spec_name(Kind kind, std::string_view spec) {
  return kind == Kind::kPip ? profile::pip_spec_name(spec) : profile::npm_spec_name(spec);
}

std::optional<Kind> kind_of(const profile::Language& language) {
  if (language.interpreter.empty()) return std::nullopt;
  const std::string_view word = base_of(language.interpreter.front());
  if (word.starts_with("python") || word.starts_with("pypy")) return Kind::kPip;
  if (word == "node" || word == "nodejs") return Kind::kNpm;
  return std::nullopt;
}

Status add_wanted(const std::vector<std::string>& wanted, profile::Profile& profile) {
  for (const std::string& each : wanted) {
    SBX_TRY(add_one(each, profile));
  }
  return {};
}

std::string folded_name(Kind kind, std::string_view name) {
  constexpr std::string_view kSeparators = "-_.";
  std::string out;
  for (const char c : name) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (kind == Kind::kNpm || kSeparators.find(c) == std::string_view::npos) {
      out += lower;
    } else if (!out.ends_with('-')) {
      out += '-';
    }
  }
  return out;
}

bool is_like(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t in_text = 0;
  std::size_t star = std::string_view::npos;
  std::size_t behind_star = 0;
  while (in_text < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      behind_star = in_text;
    } else if (at < pattern.size() && pattern[at] == text[in_text]) {
      ++at;
      ++in_text;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in_text = ++behind_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

std::string policy_complaint(const std::vector<profile::PackagePolicy>& policies,
                             Kind kind,
                             std::string_view name) {
  const std::string folded = folded_name(kind, name);
  for (const profile::PackagePolicy& policy : policies) {
    if (is_named(policy.deny, kind, folded)) {
      return text::cat("is refused by packages.deny of ", text::escape(policy.where));
    }
    if (!policy.allow.empty() && !is_named(policy.allow, kind, folded)) {
      return text::cat("is not in packages.allow of ", text::escape(policy.where));
    }
  }
  return {};
}

}  // namespace sbx::packages
