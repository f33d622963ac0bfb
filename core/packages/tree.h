// Tree: what programs in a sandbox left as a set of packages, made fit to be kept. Nobody may be
// alive in it any more.
#pragma once

#include "core/base/result.h"

namespace sbx::packages {

/// Takes away what a set has no use for and could harm: set-id bits, other writers, modes that
/// keep readers out. kProtocol for anything but files, directories and links, kLimit for too many.
/// Follows no link.
Status tidy_tree(int dir);

}  // namespace sbx::packages
