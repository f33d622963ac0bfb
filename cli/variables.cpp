// Variables: see variables.h.
#include "cli/variables.h"

#include <unistd.h>

#include <algorithm>

#include "core/base/text.h"
#include "core/profile/profile.h"

namespace sbx::cli {
namespace {

constexpr std::string_view kPrefix = "SBX_";

std::vector<std::string_view> known_variables() {
  std::vector<std::string_view> out{
      "SBX_PROFILE", "SBX_LOG_LEVEL", "SBX_STATE_DIR", "SBX_STATE_BUDGET"};
  for (const profile::KeyInfo& key : profile::key_infos()) {
    if (!key.env.empty()) out.push_back(key.env);
  }
  return out;
}

}  // namespace

std::vector<std::string> unknown_variables(std::span<const std::string_view> environment) {
  std::vector<std::string> out;
  std::vector<std::string_view> known;
  for (const std::string_view entry : environment) {
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix)) continue;
    if (known.empty()) known = known_variables();
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const auto near = text::closest(name, known);
    out.push_back(text::cat("the variable ",
                            text::escape(name),
                            " means nothing to sbx",
                            near ? text::cat("; did you mean ", *near, "?") : std::string()));
  }
  return out;
}

std::vector<std::string> unknown_variables() {
  std::vector<std::string_view> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with(kPrefix)) environment.push_back(text);
  }
  return unknown_variables(environment);
}

}  // namespace sbx::cli
