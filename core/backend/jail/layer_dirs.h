// Layer directories: what is done on disk for a root that keeps what is written to it, outside of
// the sandbox. See backend::WritableRoot for what a layer is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/mount_op.h"
#include "core/confine/storage_ids.h"

namespace sbx::jail {

/// Who owns what is in layers, as ids of the host.
struct LayerOwners {
  uint32_t base = 0;       ///< added to an inside id; 0 when there is one id only
  bool has_range = false;  ///< false: everything is ours, or of `subids`
  /// A user's: ours are 0, the others can be given by root of them only.
  const confine::StorageIds* subids = nullptr;
};

/// The layer "base-<digest>" below `layers_dir` with exactly `objects` in its root; made when it is
/// not there. Atomic: a directory whose name begins with ".tmp-", locked (flock(2)), synced,
/// renamed.
Result<std::string> open_base_layer(const std::string& layers_dir,
                                    std::span<const confine::Step> objects,
                                    const LayerOwners& owners);

/// One part of an upper.
struct UpperPart {
  std::string name;
  std::string like;  ///< host directory whose mode a new one gets; empty: 0755, PID 1's
};

/// Makes what is missing of `upper` and empty work directories. kUnsupported where its file system
/// cannot keep attributes of users.
Status prepare_upper(const std::string& upper,
                     std::span<const UpperPart> parts,
                     const LayerOwners& owners,
                     uint32_t job_id);

/// A layer that is thrown away: a directory below "<state_dir>/overlays", locked as long as this
/// lives, and removed by the destructor. What a killed sbx left there nobody locks.
class ThrowawayLayer {
 public:
  /// `ids`: whose ids may own what is written there, when they are not ours alone.
  static Result<ThrowawayLayer> make(const std::string& state_dir,
                                     const std::optional<confine::StorageIds>& ids = std::nullopt);
  ~ThrowawayLayer();
  ThrowawayLayer(ThrowawayLayer&&) noexcept = default;
  ThrowawayLayer& operator=(ThrowawayLayer&&) = delete;
  ThrowawayLayer(const ThrowawayLayer&) = delete;
  ThrowawayLayer& operator=(const ThrowawayLayer&) = delete;
  const std::string& path() const { return dir_->path(); }

 private:
  ThrowawayLayer(fs::TempDir dir, std::optional<confine::StorageIds> ids)
      : dir_(std::make_unique<fs::TempDir>(std::move(dir))), ids_(std::move(ids)) {}
  std::unique_ptr<fs::TempDir> dir_;
  std::optional<confine::StorageIds> ids_;
};

/// Whether files on a tmpfs keep attributes of users; tried on one.
bool tmpfs_keeps_attributes();

/// A detached mount of the layer at `path`; with a range its ids mapped to those of the range,
/// through `userns` of map_ids(). kUnsupported when its file system cannot.
Result<UniqueFd> open_layer(const std::string& path, int userns);
/// The namespace for that: `first` is what is 0 inside (IdRange::kStorage, but for mounted images),
/// `range_base` what 0 of the range is.
Result<UniqueFd> map_ids(uint32_t first, uint32_t range_base);

}  // namespace sbx::jail
