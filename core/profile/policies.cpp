// Policies: what base.yaml of the user and of the system say of packages. Nobody extends these two
// by himself, so that what stands in them cannot be replaced by a profile.
#include <utility>

#include "core/profile/diagnostics.h"
#include "core/profile/merge.h"
#include "core/profile/profile.h"
#include "core/profile/search.h"
#include "core/profile/yaml.h"

namespace sbx::profile {

Result<std::vector<PackagePolicy>> package_policies(const LoadRequest& request) {
  const Search search(request);
  std::vector<PackagePolicy> policies;
  for (const Layer layer : {Layer::kSystem, Layer::kUser}) {
    auto found = search.find_in(layer, "base");
    if (!found.ok() && found.error().code() == Errc::kNotFound) continue;
    if (!found.ok()) return std::move(found).error();
    Diagnostics mistakes(found.value().file);
    Source source;
    source.layer = layer;
    source.file = found.value().file;
    source.base_dir = found.value().dir;
    source.home = search.home();
    Profile profile;
    merge_file(parse_yaml(found.value().text, mistakes), source, profile, mistakes);
    if (!mistakes.empty()) return to_error(mistakes.take(), found.value().file);
    if (profile.packages.allow.empty() && profile.packages.deny.empty()) continue;
    policies.push_back({std::move(profile.packages.allow),
                        std::move(profile.packages.deny),
                        std::move(found.value().file)});
  }
  return policies;
}

}  // namespace sbx::profile
