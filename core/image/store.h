// Store: the images of one state directory.
//
//   images/NAME.json   one record each ('/' in a name is "%2F" there, '%' "%25"); replaced as a
//                      whole, durable
//   layers/            shared with sessions, see core/workspace/layer_store.h
//
// Layers are found by content: an image layer is called "img-" and 24 hex digits of the digest that
// identifies it, so that one that is there already is not stored twice. A name is pointed at layers
// only while the lock on layers/ is held shared, and nothing is removed without it held
// exclusively.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/image/record.h"
#include "core/workspace/layer_store.h"

namespace sbx::image {

/// Names of images that sbx keeps for itself, as states of builds, begin with it.
inline constexpr std::string_view kCachePrefix = "sbx-build/";

class Store {
 public:
  /// `state_dir`: absolute, exists. Makes images/, layers/ and sessions/ below it when missing:
  /// what nobody uses is told from all three, on a disk that may be full by then.
  static Result<Store> open(const std::string& state_dir);

  const std::string& state_dir() const { return state_dir_; }
  int layers() const { return layers_.get(); }
  std::string layers_dir() const;

  /// Names of all images, sorted, whether their records can be read or not.
  std::vector<std::string> names() const;
  /// kNotFound with near names and how to get one.
  Result<Record> find(std::string_view name) const;
  /// All, by name. One whose record cannot be read has only a name, and its problem in `problems`
  /// under the same index (empty for the others).
  Result<std::vector<Record>> list(std::vector<std::string>& problems) const;
  /// Gives `record.name` to it, in place of what had that name. The caller holds `lock` from before
  /// the first of its layers was made or found. kNotFound when one of them is not there, kLimit for
  /// more layers or settings than an image can have.
  Status put(const Record& record, const workspace::LayersLock& lock) const;
  Status remove(std::string_view name) const;

  /// Ids of all layers that images name. An unreadable record is an error: nothing may be removed
  /// then.
  Result<std::vector<std::string>> used_layers() const;

 private:
  Store(std::string state_dir, UniqueFd images, UniqueFd layers)
      : state_dir_(std::move(state_dir)), images_(std::move(images)), layers_(std::move(layers)) {}

  std::string state_dir_;
  UniqueFd images_;
  UniqueFd layers_;
};

/// Store::used_layers() of a state directory that may have no images. Makes nothing.
Result<std::vector<std::string>> layers_of_images(const std::string& state_dir);

/// An image in use by a sandbox that no record names: its layers cannot be removed while this
/// lives (each is locked shared, flock(2)).
struct Opened {
  Record record;
  std::vector<std::string> layer_dirs;  ///< absolute, lowest first
  std::vector<UniqueFd> held;
};

/// kNotFound as Store::find; kUnsupported with the fix where this user can have no images
/// (confine::storage_ids()).
Result<Opened> open_image(const std::string& state_dir, std::string_view name);

/// Ids and home directory of `user` (Config::user) as the image's own /etc/passwd and /etc/group,
/// found through its layers, have them.
struct ImageUser {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  ///< further ones, of a named user
  std::string home = "/";
};
/// `layers` is the directory of layers, `ids` lowest first. Links of the image are followed within
/// it. kNotFound for a name that is not there, kUnsupported for an id beyond 65535, kLimit for a
/// file of users or groups that is too long.
Result<ImageUser> find_user(int layers, const std::vector<std::string>& ids, std::string_view user);

}  // namespace sbx::image
