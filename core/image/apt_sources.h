// Apt sources: what this host's apt reads packages from (sources.list(5), both forms), made into
// the sources of a new root file system. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace sbx::image {

/// One stanza of the deb822 form. Fields keep their order; names are as written.
struct AptSource {
  std::vector<std::string> suites;
  std::vector<std::string> uris;
  std::vector<std::pair<std::string, std::string>> other;  ///< Components, Signed-By, ...
};

/// The enabled sources of binary packages of a file in the one-line form ("deb [opt=v] URI SUITE
/// COMPONENT..."). Lines that are none are left out, as apt would warn about them.
std::vector<AptSource> parse_one_line(std::string_view text);
/// The same of a file in the deb822 form (.sources).
std::vector<AptSource> parse_deb822(std::string_view text);

/// The sources for `suite`, in the deb822 form: those that have it, with its updates and security
/// suites where they are there; where none has it, the first archive with another plain suite, on
/// which `suite` is looked for. kNotFound when the host has no sources.
Result<std::string> sources_for(std::span<const AptSource> sources, std::string_view suite);

/// Letters, digits and . + - _ ; kUsage otherwise.
Status check_suite(std::string_view suite);

}  // namespace sbx::image
