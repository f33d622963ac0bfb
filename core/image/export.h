// Export: an image as one archive: OCI layout, docker save, or a plain root file system.
//
// Layers are read by a storage job and compressed here. Each written layer is noted (canonical.h),
// so that importing the archive again stores nothing twice.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/archive/compress.h"
#include "core/base/result.h"
#include "core/image/store.h"

namespace sbx::image {

/// Told how many bytes of about how many are read; an error ends the export and is given back.
using OnExport = std::function<Status(std::uint64_t done, std::uint64_t total)>;

struct ExportReport {
  std::uint64_t bytes = 0;  ///< length of what was written
  std::string digest;  ///< "sha256:…" of the manifest, of the configuration (docker), or of the
                       ///< uncompressed tar
};

/// An image layout in a tar file (index.json names the image by its tag), which also has the
/// manifest.json that `docker load` looks for. `fd` can seek, is empty from its position on, and
/// stays the caller's. Blocks.
Result<ExportReport> export_oci(const Store& store,
                                const Opened& image,
                                int fd,
                                archive::Compression layers,
                                const OnExport& told = {});

/// What `docker save` writes; the same rules for `fd`.
Result<ExportReport> export_docker(const Store& store,
                                   const Opened& image,
                                   int fd,
                                   const OnExport& told = {});

/// What programs in the image see, as one tar stream with the owners as inside. `fd` may be a pipe.
Result<ExportReport> export_tar(const Store& store,
                                const Opened& image,
                                int fd,
                                archive::Compression how,
                                const OnExport& told = {});

}  // namespace sbx::image
