// Jail plan: from a profile and this host's facts to the steps that make one jail; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/agent/rules.h"
#include "core/backend/backend.h"
#include "core/backend/jail/base_plan.h"
#include "core/backend/jail/host_tree.h"
#include "core/backend/jail/layer_dirs.h"
#include "core/base/result.h"
#include "core/confine/cgroup.h"
#include "core/confine/cgroup_layout.h"
#include "core/confine/disk_image.h"
#include "core/confine/mount_op.h"
#include "core/confine/storage_ids.h"

namespace sbx::jail {

/// Ids inside: without an image the program is 1000 ("sbx"); with many ids PID 1 is 0.
inline constexpr uint32_t kJobId = 1000;

/// Which ids of the host a jail has.
enum class IdScheme : uint8_t {
  kSingle,  ///< our own, as kJobId
  kRange,   ///< a range of the sandbox's own (confine::IdRange): we are root
  kSubids,  ///< our own as 0 and those that /etc/subuid gives us (confine::StorageIds)
};

/// Who we are and what protects our binary: all that beginning a jail depends on.
struct JailBasics {
  IdScheme ids = IdScheme::kSingle;
  std::optional<confine::StorageIds> subids;  ///< with kSubids
  uint32_t own_uid = 0;
  uint32_t own_gid = 0;
  int landlock_abi = 0;
  bool is_binary_writable = false;  ///< the job's host id could write the running sbx binary
  std::string binary;               ///< path of the running sbx binary

  bool has_id_range() const { return ids == IdScheme::kRange; }
  /// PID 1 is 0 inside and may become others.
  bool has_many_ids() const { return ids != IdScheme::kSingle; }
};

/// What the plan depends on besides the request.
struct JailFacts {
  JailBasics basics;
  bool nproc_is_per_userns = true;   ///< Linux 5.14
  uint64_t memory_total = 0;         ///< bytes of RAM, bounds the scratch space
  confine::DiskImageAbility images;  ///< whether a disk larger than the memory can be kept
  confine::CgroupLayout cgroups;
  HostTree tree;                   ///< needed to place mounts; may be empty when there are none
  std::vector<bool> mount_is_dir;  ///< of profile.mounts, in their order
  std::vector<std::vector<std::string>> layer_parts;  ///< what each of root->lowers has in its fs
  bool tmpfs_keeps_attributes = true;  ///< of users (Linux 6.6): overlays may change things there
};

/// How PID 1 comes to be (core/README.md, "the job and our binary").
enum class InitMode {
  kFork,       ///< the forked sbx itself becomes PID 1
  kExecClone,  ///< PID 1 is exec'd from a read-only clone of our file
};

/// Whether programs inside get a Landlock domain (it forbids mounts, so not with nesting).
bool is_using_landlock(const JailBasics& basics, const profile::Profile& profile);
/// Until its exec a child of PID 1 is the host's sbx file. Where the job's id could write that file
/// and Landlock does not shut it off, PID 1 runs from a read-only clone instead.
InitMode init_mode(const JailBasics& basics, const profile::Profile& profile);

/// A host path that is opened in the parent, because the job's ids may not reach it. The Bind whose
/// source_fd is its number in JailPlan::sources shows it.
struct SourceMount {
  std::string path;
  std::string beneath;
  bool is_dir = false;
  bool is_input = false;   ///< may be copied when it cannot be mapped
  bool is_device = false;  ///< a node of the same device that belongs to the job is shown instead
  confine::BindMode mode = confine::BindMode::kReadOnly;
};

/// A host directory that overlays are made of.
struct StagedSource {
  std::string path;
  std::string beneath;
  bool is_layer = false;  ///< else a directory of the user's; an empty path: the throw-away one
  bool is_mount = false;  ///< a layer's root itself, with owners as inside
};

struct JailPlan {
  std::string id;
  std::string state_dir;
  JailBasics basics;
  InitMode init = InitMode::kFork;
  BaseContent base;
  bool is_lasting = false;
  bool is_alone = false;        ///< LaunchRequest::is_alone
  bool needs_own_root = false;  ///< `steps` make something in the root: see kept_root.h
  /// After those of add_base(), which go ahead with Begin; with a `root` all of them.
  std::vector<confine::Step> steps;
  std::vector<SourceMount> sources;
  std::vector<StagedSource> staged;  ///< in the order of the Stage step
  /// An overlay of layers: one that is kept, or that of an image.
  std::optional<backend::WritableRoot> root;
  int32_t root_upper = -1;        ///< in `staged`; -1: changes of the root are in the scratch space
  bool is_image = false;          ///< nothing of the host's tree is shown
  std::optional<size_t> base_at;  ///< in `staged`: the base layer, to be found at launch
  /// In `staged`: a layer on the state disk that goes with the jail, to be made at launch.
  std::optional<size_t> throwaway_at;
  std::vector<std::string> job_dirs;  ///< of the root, that belong to the job
  int32_t job_owner = confine::kKeepOwner;
  std::vector<UpperPart> upper_parts;              ///< of root->upper, or of the throw-away layer
  std::vector<confine::Step> base_objects;         ///< of the base layer, when there is a `root`
  std::optional<confine::DiskImageRequest> image;  ///< holds the scratch space; owner not yet known
  std::vector<backend::InputMount> inputs;
  agent::PayloadRules rules;
  confine::CgroupRequest cgroup;
  confine::CgroupLayout layout;
  std::optional<uint32_t> cpu_millis;  ///< the processors that programs inside are to count
  std::optional<Millis> cpu_time;      ///< for the supervisor to hold the job to
  std::vector<confine::InForce> expected;
  std::vector<std::string> warnings;
};

/// kUsage for contradictory mounts, kUnsupported for limits that nothing here can hold.
Result<JailPlan> make_plan(const backend::LaunchRequest& request, JailFacts facts);

/// Whose ids are in layers; refers to `basics`.
LayerOwners layer_owners(const JailBasics& basics);

/// The whole plan in order, with the base steps for `tree`.
std::string to_text(const JailPlan& plan, const HostTree& tree);

}  // namespace sbx::jail
