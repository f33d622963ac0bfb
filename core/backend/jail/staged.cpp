// Staged: see staged.h.
#include "core/backend/jail/staged.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <utility>
#include <variant>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/mount_exec.h"
#include "core/workspace/layer_store.h"

namespace sbx::jail {

namespace {

/// A directory of the user's, without what is mounted in it.
Result<UniqueFd> open_host_dir(const StagedSource& source, const backend::User& job_on_host) {
  SBX_ASSIGN(UniqueFd mount,
             confine::open_source(source.path, source.beneath, confine::SourceDepth::kOneMount));
  if (const Status mapped = map_owner(mount.get(), job_on_host); !mapped.ok()) {
    return Error(Errc::kUnsupported,
                 text::cat("mount ",
                           source.path,
                           ": its file system cannot map owners: ",
                           mapped.error().message()))
        .with_hint("copy it in, or run sbx as the owner of the files");
  }
  return mount;
}

}  // namespace

Status map_owner(int mount, const backend::User& job_on_host) {
  SBX_ASSIGN(const struct stat info, sys::fstat(mount));
  const confine::IdMap uid{info.st_uid, job_on_host.uid, 1};
  const confine::IdMap gid{info.st_gid, job_on_host.gid, 1};
  SBX_ASSIGN(const UniqueFd userns, confine::idmap_userns({&uid, 1}, {&gid, 1}));
  mount_attr attr{};
  attr.attr_set = MOUNT_ATTR_IDMAP;
  attr.userns_fd = static_cast<__u64>(userns.get());
  return sys::mount_setattr(mount, "", AT_EMPTY_PATH | AT_RECURSIVE, attr);
}

Result<HeldLayer> hold_base_layer(const JailPlan& plan) {
  using workspace::LayersLock;
  const std::string parent = plan.state_dir + "/layers";
  SBX_TRY(fs::mkdirs(parent, 0700));
  SBX_ASSIGN(const UniqueFd layers, fs::open_dir(parent));
  // Whoever removes layers has it exclusively.
  SBX_ASSIGN(const LayersLock lock, LayersLock::take(layers.get(), LayersLock::Mode::kShared));
  SBX_ASSIGN(const std::string name,
             open_base_layer(parent, plan.base_objects, layer_owners(plan.basics)));
  HeldLayer layer{text::cat(parent, "/", name), {}};
  SBX_ASSIGN(layer.held, sys::openat(layers.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (::flock(layer.held.get(), LOCK_SH | LOCK_NB) != 0) return sys_error("lock " + layer.path);
  return layer;
}

void set_staged(JailPlan& plan, size_t index, const std::string& path) {
  plan.staged.at(index).path = path;
  for (confine::Step& step : plan.steps) {
    auto* stage = std::get_if<confine::Stage>(&step);
    if (stage != nullptr) stage->dirs.at(index).source = path;
  }
}

namespace {

/// The layer that is written to; empty: none is.
std::string upper_of(const JailPlan& plan) {
  if (plan.throwaway_at.has_value()) return plan.staged.at(*plan.throwaway_at).path;
  return plan.root.has_value() ? plan.root->upper : std::string();
}

}  // namespace

Status open_staged(const JailPlan& plan,
                   const std::optional<confine::IdRange>& range,
                   std::vector<UniqueFd>& mounts) {
  const std::string upper = upper_of(plan);
  if (!upper.empty()) {
    SBX_TRY(prepare_upper(upper, plan.upper_parts, layer_owners(plan.basics), plan.rules.uid));
  }
  const bool has_layers = plan.root.has_value() || !upper.empty();
  if (!range.has_value() || plan.staged.empty()) return {};
  const backend::User job_on_host{range->base() + plan.rules.uid, range->base() + plan.rules.gid};
  UniqueFd storage;
  if (has_layers) {
    SBX_ASSIGN(storage, map_ids(confine::IdRange::kStorage, range->base()));
  }
  UniqueFd inside;
  for (const StagedSource& source : plan.staged) {
    if (source.is_mount && !inside.valid()) {
      SBX_ASSIGN(inside, map_ids(0, range->base()));
    }
    const UniqueFd& ids = source.is_mount ? inside : storage;
    SBX_ASSIGN(
        UniqueFd mount,
        source.is_layer ? open_layer(source.path, ids.get()) : open_host_dir(source, job_on_host));
    mounts.push_back(std::move(mount));
  }
  return {};
}

}  // namespace sbx::jail
