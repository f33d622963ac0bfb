// Layer tar: a stored layer as the tar file that the OCI image specification describes
// (image-spec v1.1 layer.md): whiteouts as .wh.NAME and .wh..wh..opq, ids as inside, entries sorted
// by name, so that equal layers give equal bytes.
//
// The form, which may not change (layers are known by the digest of it): a pax tar with an entry
// for every directory, the root ("./") included, in the order of a walk that sorts the names of
// each directory bytewise; .wh..wh..opq right behind its directory; whiteouts 0:0, mode 0, time 0;
// of several names of a file the first one in the walk has the content, the others are hard links
// to it; times in nanoseconds; attributes user.* (but those of overlayfs), security.capability and
// POSIX ACLs; a file of 16 MiB or more is sparse (GNU 1.0) where aligned stretches of 64 KiB (the
// last one may be shorter) are zeros, wherever the file system has its holes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/storage_ids.h"

namespace sbx::image {

struct LayerTar {
  std::string diff_id;      ///< "sha256:<hex>" of what was written
  std::uint64_t bytes = 0;  ///< length of it
};

/// kTree: a plain tree, in which whiteouts are nothing.
enum class TarOf : std::uint8_t { kLayer, kTree };

/// Writes the directory `root` (readable) to `out`, uncompressed; with -1 only the digest is made.
/// To be called as root of the storage ids (confine::fork_as_storage_root). Sockets are left out. A
/// device, or in a layer a name that begins with ".wh.", is kUnsupported. Blocks.
Result<LayerTar> write_tree_tar(int root, TarOf of, int out);

/// What a storage job needs to read the layer `id`, to be got before it is forked. The descriptor
/// is invalid where the job can open the layer itself: a user's job can, and only it can open all
/// that it may find; root's may not walk there.
struct LayerForJob {
  int layers = -1;  ///< not owned
  std::string id;
  UniqueFd root;
};
Result<LayerForJob> layer_for_job(const confine::StorageIds& ids,
                                  int layers,
                                  const std::string& id);
/// In the job: the part "root" of the layer as a tar.
Result<LayerTar> write_layer_tar(const LayerForJob& layer, int out);

/// The digest of the layer's tar, made by a job of its own. Blocks for as long as the layer is big.
Result<LayerTar> digest_layer(const confine::StorageIds& ids, int layers, const std::string& id);

/// A result of the above as the answer of a storage job, and back.
std::string to_text(const LayerTar& tar);
Result<LayerTar> parse_layer_tar(std::string_view text);

}  // namespace sbx::image
