// Resolve: a chain of parsed files, the environment and flags as one Profile with its mistakes.
#pragma once

#include <vector>

#include "core/profile/chain.h"
#include "core/profile/profile.h"
#include "core/profile/search.h"

namespace sbx::profile {

struct Resolved {
  Profile profile;  // with mistakes: what could be read
  std::vector<Diagnostic> mistakes;
};

/// `chain` holds at least one link.
Resolved resolve(const Search& search, Chain chain, const LoadRequest& request);

}  // namespace sbx::profile
