// Layer store: the directory of layers: making, flushing, measuring and sweeping them. What is in
// one is hostile; copying and merging are in layer_copy.h and layer_squash.h.
//
//   layers/ID/fs/PART/    content as overlayfs keeps an upper; PART is "root" or "m-<hex>"
//   layers/ID/ovl/PART/   overlayfs work directories, while the layer is an upper
//   layers/ID/since       copied layers only, see layer_copy.h
//   layers/.tmp-<random>  one that is being made, or removed; whoever does holds a flock(2) on it
//   layers/lock           flock: shared by whoever makes layers and refers to them, exclusive by
//                         who removes what nobody refers to
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

namespace sbx::workspace {

/// Letters and digits in the ID of a layer.
inline constexpr std::size_t kLayerIdSize = 10;
/// Whether `name` can be a layer's: [a-z0-9]{10}, "base-" and hex digits, or "img-" and 24 of them.
bool is_layer_id(std::string_view name);

struct Owner {
  uid_t uid = 0;
  gid_t gid = 0;
};

/// A lock on layers/lock, until it is destroyed.
class LayersLock {
 public:
  enum class Mode : std::uint8_t { kShared, kExclusive };
  /// Waits for it. To be held shared from before a layer is made (or chosen from a record) until
  /// the record that names it is on disk. Blocks.
  static Result<LayersLock> take(int layers, Mode mode);
  /// Does not wait: nullopt when others hold it.
  static Result<std::optional<LayersLock>> try_take(int layers, Mode mode);

 private:
  explicit LayersLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// A new layer with an empty "fs/root" (mode 0755, `owner` or the caller's); its ID. `layers` is
/// the directory of layers. Appears whole or not at all.
Result<std::string> make_layer(int layers, std::optional<Owner> owner = std::nullopt);

/// Adds "fs/<part>" to a layer that is no lower yet; success when it is there.
Status add_part(int layers,
                const std::string& id,
                const std::string& part,
                std::optional<Owner> owner = std::nullopt);

/// A descriptor of "ID/fs/PART" (readable directory), or of "ID/fs" with an empty part. kNotFound
/// when the layer has no such part.
Result<UniqueFd> open_layer(int layers, const std::string& id, const std::string& part = "");
/// The parts of a layer, sorted.
Result<std::vector<std::string>> layer_parts(int layers, const std::string& id);

/// Writes everything of the file system that a layer lies on to the disk (syncfs(2)), so that what
/// was written inside before this call survives a crash. Blocks, as long as the disk is busy.
Status sync_layer(int layers, const std::string& id);

/// Removes what overlayfs left in "ID/ovl", which holds nothing of the user; for a layer that
/// becomes a lower. A layer without it is success.
Status drop_work_dirs(int layers, const std::string& id);

struct DiskUse {
  Bytes bytes;              ///< allocated blocks; a file with several names counts once
  std::uint64_t files = 0;  ///< everything but directories and whiteouts
};
/// What one layer takes on the disk. Files shared with other layers count here too.
Result<DiskUse> disk_use(int layers, const std::string& id);
/// What the tree at the directory `dir` takes, mounts in it left out.
Result<DiskUse> disk_use_below(int dir);

struct StaleLayer {
  std::string name;  ///< in the directory of layers
  Millis age;        ///< since it was made or last renamed
};
/// Layers that `used` does not name and unfinished ones whose maker is gone, none younger than
/// `min_age`, none whose directory somebody has locked (flock(2), shared or not). A layer that was
/// just made and is not yet named by a record is found when `min_age` is 0 and the caller does not
/// hold the lock.
Result<std::vector<StaleLayer>> stale_layers(int layers,
                                             const std::set<std::string>& used,
                                             Millis min_age);

/// Removes a layer that nobody names, or an unfinished one. false: somebody holds it (see above).
/// From the first moment on no layer has its name. Needs no free space.
Result<bool> remove_layer(int layers, const std::string& name);

/// Removes these; `used` has to be read from the records after `lock` was taken exclusively. Goes
/// on after a failure and reports the first one. Needs no free space. The number removed.
Result<std::size_t> sweep(int layers,
                          const LayersLock& lock,
                          const std::set<std::string>& used,
                          Millis min_age);

/// A layer in the making: "layers/.tmp-<random>", locked, removed by the destructor unless
/// published.
class NewLayer {
 public:
  static Result<NewLayer> begin(int layers);
  ~NewLayer();
  NewLayer(NewLayer&& other) noexcept;
  NewLayer& operator=(NewLayer&& other) = delete;
  NewLayer(const NewLayer&) = delete;
  NewLayer& operator=(const NewLayer&) = delete;

  int fd() const { return fd_.get(); }
  /// Gives it an ID that is free and flushes the directory of layers; the ID.
  Result<std::string> publish();

 private:
  NewLayer(int layers, std::string name, UniqueFd fd)
      : layers_(layers), name_(std::move(name)), fd_(std::move(fd)) {}

  int layers_;
  std::string name_;  // empty: nothing to remove
  UniqueFd fd_;
};

}  // namespace sbx::workspace
