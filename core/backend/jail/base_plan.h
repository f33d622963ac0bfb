// Base plan: the steps that every jail with the `host` root has in common, and those of one with
// the root of an image. Pure.
//
// They depend on the host's tree alone, so PID 1 can carry them out while its supervisor still
// plans the rest.
#pragma once

#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/jail/host_tree.h"
#include "core/backend/jail/tree_builder.h"
#include "core/base/result.h"
#include "core/profile/profile.h"

namespace sbx::jail {

/// What a base depends on besides the host's tree. Jails with equal ones can share a head start.
struct BaseContent {
  std::string hostname = profile::Profile().hostname;
  std::vector<backend::InputFile> files;  ///< of sbx's own, outside the job's space

  bool operator==(const BaseContent&) const = default;
};

/// Adds them. What they leave to the job's plan: the scratch space, the name in the UTS namespace,
/// and whether user namespaces and writing to /proc/sys are allowed.
Status add_base(TreeBuilder& builder, const HostTree& tree, const BaseContent& content);

/// The same for a jail whose root is an image: what it needs on top of that, and nothing of the
/// host's tree but devices. What the image has at the same places is covered.
Status add_image_base(TreeBuilder& builder, const BaseContent& content);

}  // namespace sbx::jail
