// Layer directories: see layer_dirs.h.
#include "core/backend/jail/layer_dirs.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <variant>

#include "core/backend/jail/jail_codec.h"
#include "core/backend/jail/layered_plan.h"
#include "core/base/fs.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/idmap.h"
#include "core/confine/mount_exec.h"

namespace sbx::jail {

namespace {

constexpr mode_t kDirMode = 0755;
constexpr size_t kDigits = 32;
constexpr const char* kProbe = "user.sbx.probe";

std::string_view path_of(const confine::Step& step) {
  if (const auto* dir = std::get_if<confine::MakeDir>(&step)) return dir->path;
  if (const auto* file = std::get_if<confine::MakeFile>(&step)) return file->path;
  if (const auto* link = std::get_if<confine::MakeLink>(&step)) return link->path;
  return {};
}

/// Owners are given afterwards, so that ids of a range need not be known while things are made.
std::vector<confine::Step> without_owners(std::span<const confine::Step> objects) {
  std::vector<confine::Step> out(objects.begin(), objects.end());
  for (confine::Step& step : out) {
    if (auto* dir = std::get_if<confine::MakeDir>(&step)) dir->owner = confine::kKeepOwner;
  }
  return out;
}

Status give(int dirfd, const std::string& name, uint32_t id) {
  return sys::fchownat(dirfd, name, id, id, AT_SYMLINK_NOFOLLOW);
}

Status give_objects(int root, std::span<const confine::Step> objects, const LayerOwners& owners) {
  if (!owners.has_range) return {};
  for (const confine::Step& step : objects) {
    const auto* dir = std::get_if<confine::MakeDir>(&step);
    const bool is_owned = dir != nullptr && dir->owner != confine::kKeepOwner;
    const uint32_t id = is_owned ? static_cast<uint32_t>(dir->owner) : 0;
    SBX_TRY(give(root, std::string(path_of(step).substr(1)), owners.base + id));
  }
  return {};
}

/// The same where only root of the user's ids can give them away.
Status give_subids(int root,
                   std::span<const confine::Step> objects,
                   const confine::StorageIds& ids) {
  return confine::run_as_storage_root(ids, "give the base layer its owners", [&] {
    return give_objects(root, objects, {0, true, nullptr}).ok() ? 0 : 1;
  });
}

/// The directory `name`, made when missing. One that another kind of thing stands for is refused.
Result<UniqueFd> own_dir(int parent, const std::string& name, const LayerOwners& owners) {
  if (::mkdirat(parent, name.c_str(), kDirMode) != 0 && errno != EEXIST) {
    return sys_error(text::cat("make directory ", name));
  }
  SBX_ASSIGN(UniqueFd dir, sys::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  SBX_ASSIGN(const struct stat info, sys::fstat(dir.get()));
  if (owners.has_range && info.st_uid != owners.base) {
    SBX_TRY(sys::fchown(dir.get(), owners.base, owners.base));
  }
  if ((info.st_mode & kDirMode) != kDirMode) SBX_TRY(sys::fchmod(dir.get(), kDirMode));
  return dir;
}

Status make_base(int dir, std::span<const confine::Step> objects, const LayerOwners& owners) {
  SBX_ASSIGN(const UniqueFd content, own_dir(dir, "fs", owners));
  SBX_ASSIGN(const UniqueFd root, own_dir(content.get(), std::string(kRootPart), owners));
  SBX_TRY(confine::make_objects(root.get(), without_owners(objects)));
  if (owners.subids != nullptr) SBX_TRY(give_subids(root.get(), objects, *owners.subids));
  SBX_TRY(give_objects(root.get(), objects, owners));
  if (owners.has_range) SBX_TRY(sys::fchown(dir, owners.base, owners.base));
  return sys::fchmod(dir, kDirMode);
}

/// Whether the part `name` is there, so that what the user set of its root stays.
Result<bool> has_dir(int parent, const std::string& name) {
  const Result<struct stat> info = sys::fstatat(parent, name, AT_SYMLINK_NOFOLLOW);
  if (info.ok()) return S_ISDIR(info.value().st_mode);
  if (info.error().code() == Errc::kNotFound) return false;
  return info.error();
}

bool is_storage(uint32_t id, const LayerOwners& owners) {
  return id >= owners.base && id - owners.base < confine::IdRange::kCount;
}

/// The content of one part. Its own mode and owner are what the job sees of the mount's root.
Status prepare_content(int fs_dir,
                       const UpperPart& part,
                       const LayerOwners& owners,
                       uint32_t job_id) {
  SBX_ASSIGN(const bool is_there, has_dir(fs_dir, part.name));
  if (!is_there) SBX_TRY(sys::mkdirat(fs_dir, part.name, kDirMode));
  // Never opened: whoever owns it may have closed it to all.
  SBX_ASSIGN(const struct stat info, sys::fstatat(fs_dir, part.name, AT_SYMLINK_NOFOLLOW));
  if (owners.has_range && !is_storage(info.st_uid, owners)) {
    SBX_TRY(give(fs_dir, part.name, owners.base + (part.like.empty() ? 0 : job_id)));
  }
  if (is_there || part.like.empty()) return {};
  SBX_ASSIGN(const struct stat like, sys::fstatat(AT_FDCWD, part.like, 0));
  if (::fchmodat(fs_dir, part.name.c_str(), like.st_mode & 01777, 0) != 0) {
    return sys_error(text::cat("set the mode of ", part.name));
  }
  return {};
}

Status probe_attributes(int dir, const std::string& path) {
  if (::fsetxattr(dir, kProbe, "", 0, 0) == 0) {
    (void)::fremovexattr(dir, kProbe);
    return {};
  }
  const int err = errno;
  if (err != EOPNOTSUPP) return sys_error(text::cat("set an attribute of ", path), err);
  return Error(Errc::kUnsupported,
               text::cat(path, ": its file system keeps no attributes of users (xattr(7))"))
      .with_hint("set SBX_STATE_DIR to a directory on ext4, xfs or btrfs");
}

}  // namespace

Result<std::string> open_base_layer(const std::string& layers_dir,
                                    std::span<const confine::Step> objects,
                                    const LayerOwners& owners) {
  Sha256 digest;
  digest.update(encode_steps(objects));
  digest.update(text::cat(owners.base, owners.subids != nullptr ? " subids" : ""));
  const std::string name = text::cat("base-", digest.hex().substr(0, kDigits));
  SBX_ASSIGN(const UniqueFd parent, fs::open_dir(layers_dir));
  SBX_ASSIGN(const bool is_there, has_dir(parent.get(), name));
  if (is_there) return name;
  const fs::OwnerUmask mask;
  SBX_ASSIGN(fs::TempDir temp, fs::TempDir::create(layers_dir, ".tmp-"));
  SBX_ASSIGN(const UniqueFd lock, sys::open(temp.path(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (::flock(lock.get(), LOCK_SH | LOCK_NB) != 0) return sys_error("lock " + temp.path());
  SBX_TRY(make_base(temp.fd(), objects, owners));
  if (::syncfs(temp.fd()) != 0) return sys_error("sync " + temp.path());
  const std::string path = text::cat(layers_dir, "/", name);
  if (::rename(temp.path().c_str(), path.c_str()) == 0) {
    temp.keep();
    SBX_TRY(sys::fsync(parent.get()));
    return name;
  }
  // Somebody was faster: theirs is the same.
  if (errno != EEXIST && errno != ENOTEMPTY) return sys_error(text::cat("rename to ", path));
  return name;
}

Status prepare_upper(const std::string& upper,
                     std::span<const UpperPart> parts,
                     const LayerOwners& owners,
                     uint32_t job_id) {
  const fs::OwnerUmask mask;
  SBX_ASSIGN(const UniqueFd layer, sys::open(upper, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  SBX_TRY(probe_attributes(layer.get(), upper));
  SBX_ASSIGN(const UniqueFd content, own_dir(layer.get(), "fs", owners));
  // Whatever a killed sandbox left of its own in there is no data.
  SBX_TRY(fs::remove_tree(layer.get(), "ovl"));
  SBX_ASSIGN(const UniqueFd work, own_dir(layer.get(), "ovl", owners));
  for (const UpperPart& part : parts) {
    SBX_TRY(prepare_content(content.get(), part, owners, job_id));
    SBX_ASSIGN([[maybe_unused]] const UniqueFd made, own_dir(work.get(), part.name, owners));
  }
  if (owners.has_range) SBX_TRY(sys::fchown(layer.get(), owners.base, owners.base));
  return sys::fchmod(layer.get(), kDirMode);
}

namespace {

/// Removes what belongs to several ids of a user, of whom only root of them may remove it all.
void remove_as_root(int parent,
                    const std::string& name,
                    const std::optional<confine::StorageIds>& ids) {
  if (fs::remove_tree(parent, name).ok() || !ids.has_value()) return;
  (void)confine::run_as_storage_root(*ids, "remove a layer", [parent, &name] {
    return fs::remove_tree(parent, name).ok() ? 0 : 1;
  });
}

/// Those that a killed sbx left. What cannot be removed is left to gc.
void remove_unlocked(const std::string& parent, const std::optional<confine::StorageIds>& ids) {
  DIR* list = ::opendir(parent.c_str());
  if (list == nullptr) return;
  while (const dirent* entry = ::readdir(list)) {  // NOLINT(concurrency-mt-unsafe): one thread
    const std::string name(static_cast<const char*>(entry->d_name));
    if (name == "." || name == "..") continue;
    const auto dir = sys::openat(::dirfd(list), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!dir.ok() || ::flock(dir.value().get(), LOCK_EX | LOCK_NB) != 0) continue;
    remove_as_root(::dirfd(list), name, ids);
  }
  (void)::closedir(list);
}

}  // namespace

ThrowawayLayer::~ThrowawayLayer() {
  if (dir_ != nullptr && ids_.has_value()) remove_as_root(AT_FDCWD, dir_->path(), ids_);
}

Result<ThrowawayLayer> ThrowawayLayer::make(const std::string& state_dir,
                                            const std::optional<confine::StorageIds>& ids) {
  constexpr int kTries = 16;
  const fs::OwnerUmask mask;
  const std::string parent = state_dir + "/overlays";
  SBX_TRY(fs::mkdirs(parent, 0700));
  remove_unlocked(parent, ids);
  for (int i = 0; i < kTries; ++i) {
    SBX_ASSIGN(fs::TempDir dir, fs::TempDir::create(parent, "run-"));
    if (::flock(dir.fd(), LOCK_SH | LOCK_NB) != 0) continue;
    SBX_ASSIGN(const struct stat info, sys::fstat(dir.fd()));
    // Else gc took it for a leftover.
    if (info.st_nlink != 0) return ThrowawayLayer(std::move(dir), ids);
  }
  return Error(Errc::kTimeout, text::cat("somebody removes all that is made in ", parent));
}

bool tmpfs_keeps_attributes() {
  const Result<UniqueFd> file = sys::memfd_create("sbx-probe");
  return file.ok() && ::fsetxattr(file.value().get(), kProbe, "", 0, 0) == 0;
}

Result<UniqueFd> map_ids(uint32_t first, uint32_t range_base) {
  const confine::IdMap map{first, range_base, confine::IdRange::kCount};
  return confine::idmap_userns({&map, 1}, {&map, 1});
}

Result<UniqueFd> open_layer(const std::string& path, int userns) {
  SBX_ASSIGN(const UniqueFd dir, sys::open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  SBX_ASSIGN(UniqueFd tree, sys::open_tree(dir.get(), "", OPEN_TREE_CLONE | AT_EMPTY_PATH));
  mount_attr attr{};
  attr.attr_set = MOUNT_ATTR_IDMAP;
  attr.userns_fd = static_cast<__u64>(userns);
  if (const Status mapped = sys::mount_setattr(tree.get(), "", AT_EMPTY_PATH, attr); !mapped.ok()) {
    return Error(Errc::kUnsupported,
                 text::cat(path, ": its file system cannot map owners: ", mapped.error().message()))
        .with_hint("set SBX_STATE_DIR to a directory on ext4, xfs or btrfs");
  }
  return tree;
}

}  // namespace sbx::jail
