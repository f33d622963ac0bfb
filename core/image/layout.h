// Layout: which of the images in an archive is meant, and what it consists of. Pure: it is given
// the texts of the archive by their paths.
//
// Known are the OCI image layout (image-spec image-layout.md) and what `docker save` writes, old
// and new (manifest.json). Digests of all texts that have one are checked.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/image/image_config.h"

namespace sbx::image {

/// Longest text of an archive that is read.
inline constexpr std::size_t kMaxText = std::size_t{4} << 20U;

/// The text at a path of the archive ("index.json", "blobs/sha256/<hex>"); nullopt when it has
/// none.
using FindText = std::function<Result<std::optional<std::string>>(const std::string& path)>;

struct PlannedLayer {
  std::string path;  ///< in the archive
  std::string diff_id;
};

struct ImagePlan {
  ImageConfig image;
  std::vector<PlannedLayer> layers;  ///< lowest first, one for each diff_id
};

/// The image called `tag` ("" when there is but one) for this machine. kNotFound with what there is
/// instead; kUsage where there are several to choose from.
Result<ImagePlan> plan_image(const FindText& find, const std::string& tag);

/// "blobs/sha256/<hex>" of a digest.
std::string blob_path(std::string_view digest);

/// Whether a path of an archive is one that an archive of an image begins with, and no root file
/// system does.
bool is_image_path(std::string_view path);

/// A path of an archive without "." and empty components, ".." taken back; nullopt when it leaves
/// the archive.
std::optional<std::string> archive_path(std::string_view path);

}  // namespace sbx::image
