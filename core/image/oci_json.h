// OCI JSON: the documents of an exported image (OCI image-spec v1.1, and the manifest.json of
// docker save), as text. Pure; equal images give equal bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/image/record.h"

namespace sbx::image {

struct Blob {
  std::string media_type;
  std::string sha256;  ///< 64 hex digits
  std::uint64_t size = 0;

  /// "blobs/sha256/<hex>".
  std::string path() const;
};

inline constexpr const char* kConfigType = "application/vnd.oci.image.config.v1+json";
inline constexpr const char* kManifestType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* kLayerType = "application/vnd.oci.image.layer.v1.tar";
inline constexpr const char* kLayoutText = R"({"imageLayoutVersion":"1.0.0"})";

/// The image configuration; `diff_ids` of its layers as they are exported.
std::string config_document(const Record& record, std::span<const std::string> diff_ids);
std::string manifest_document(const Blob& config, std::span<const Blob> layers);
/// The index of a layout with this one image.
std::string index_document(const Record& record, const Blob& manifest);
/// manifest.json: paths within the archive.
std::string docker_document(const Record& record,
                            const std::string& config,
                            std::span<const std::string> layers);

/// The name split as registries do: "team/tools:2" is "team/tools" and "2"; without a tag "latest".
struct Reference {
  std::string repository;
  std::string tag;
};
/// What is no part of such names becomes '-' or lower case; the tag is at most 128 bytes.
Reference reference_of(std::string_view name);

}  // namespace sbx::image
