// Staged: see staged.h.
#include "core/backend/jail/staged.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>

#include <utility>
#include <variant>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/mount_exec.h"

namespace sbx::jail {

namespace {

/// A directory of the user's, without what is mounted in it.
Result<UniqueFd> open_host_dir(const StagedSource& source, uint32_t job_host_id) {
  SBX_ASSIGN(UniqueFd mount,
             confine::open_source(source.path, source.beneath, confine::SourceDepth::kOneMount));
  if (const Status mapped = map_owner(mount.get(), job_host_id); !mapped.ok()) {
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

Status map_owner(int mount, uint32_t job_host_id) {
  SBX_ASSIGN(const struct stat info, sys::fstat(mount));
  const confine::IdMap uid{info.st_uid, job_host_id, 1};
  const confine::IdMap gid{info.st_gid, job_host_id, 1};
  SBX_ASSIGN(const UniqueFd userns, confine::idmap_userns({&uid, 1}, {&gid, 1}));
  mount_attr attr{};
  attr.attr_set = MOUNT_ATTR_IDMAP;
  attr.userns_fd = static_cast<__u64>(userns.get());
  return sys::mount_setattr(mount, "", AT_EMPTY_PATH | AT_RECURSIVE, attr);
}

void use_throwaway(JailPlan& plan, const ThrowawayLayer& layer) {
  plan.staged.front().path = layer.path();
  for (confine::Step& step : plan.steps) {
    auto* stage = std::get_if<confine::Stage>(&step);
    if (stage != nullptr) stage->dirs.front().source = layer.path();
  }
}

Status open_staged(const JailPlan& plan,
                   const std::optional<confine::IdRange>& range,
                   std::vector<UniqueFd>& mounts) {
  const bool has_layers = plan.root.has_value() || plan.needs_throwaway;
  if (has_layers) {
    const std::string& upper = plan.root.has_value() ? plan.root->upper : plan.staged.front().path;
    SBX_TRY(prepare_upper(upper, plan.upper_parts, layer_owners(plan.basics), kJobId));
  }
  if (!range.has_value() || plan.staged.empty()) return {};
  UniqueFd storage;
  if (has_layers) {
    SBX_ASSIGN(storage, map_storage(range->base()));
  }
  for (const StagedSource& source : plan.staged) {
    SBX_ASSIGN(UniqueFd mount,
               source.is_layer ? open_layer(source.path, storage.get())
                               : open_host_dir(source, range->base() + kJobId));
    mounts.push_back(std::move(mount));
  }
  return {};
}

}  // namespace sbx::jail
