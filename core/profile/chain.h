// Chain: a profile and those that it extends, read and parsed, the base first.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/profile/diagnostics.h"
#include "core/profile/search.h"
#include "core/profile/yaml.h"

namespace sbx::profile {

struct Link {
  Found found;
  YamlNode root;
};

struct Chain {
  std::vector<Link> links;           // the shipped base first, the named profile last
  std::vector<Diagnostic> mistakes;  // of YAML and of `extends`; keys are not looked at
};

/// Mistakes in the files do not fail it: a chain that breaks off holds what there is.
Result<Chain> read_chain(const Search& search, const std::string& name_or_path);
/// The same from a file that has been read.
Chain read_chain(const Search& search, Found top);

}  // namespace sbx::profile
