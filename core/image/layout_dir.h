// Layout dir: an OCI layout (or an unpacked `docker save`) that is a directory of the user's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/image/layout.h"
#include "core/image/outer.h"

namespace sbx::image {

/// The image called `tag` of the layout in `dirfd`; nullopt when that is no layout. Files outside
/// of the directory are never opened.
Result<std::optional<ImagePlan>> plan_dir(int dirfd, const std::string& tag);

/// Opens the layers of `plan` that are not among `present`, each once.
Result<std::vector<OpenedBlob>> open_blobs(int dirfd,
                                           const ImagePlan& plan,
                                           const PresentLayers& present);

}  // namespace sbx::image
