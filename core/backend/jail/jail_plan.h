// Jail plan: from a profile and this host's facts to the steps that make one jail; pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/agent/rules.h"
#include "core/backend/backend.h"
#include "core/backend/jail/host_tree.h"
#include "core/base/result.h"
#include "core/confine/cgroup.h"
#include "core/confine/cgroup_layout.h"
#include "core/confine/idmap.h"
#include "core/confine/mount_op.h"

namespace sbx::jail {

/// Ids inside: the program is 1000 ("sbx"); with a range of ids PID 1 is 0.
inline constexpr uint32_t kJobId = 1000;

/// What the plan depends on besides the request.
struct JailFacts {
  bool has_id_range = false;  ///< root that may map a range of ids; else one id is mapped
  uint32_t own_uid = 0;
  uint32_t own_gid = 0;
  int landlock_abi = 0;
  bool nproc_is_per_userns = true;  ///< Linux 5.14
  bool is_binary_writable = false;  ///< the job's host id could write the running sbx binary
  std::string binary;               ///< path of the running sbx binary
  uint64_t memory_total = 0;        ///< bytes of RAM, bounds the scratch space
  confine::CgroupLayout cgroups;
  HostTree tree;
  std::vector<bool> mount_is_dir;  ///< of profile.mounts, in their order
};

/// How PID 1 comes to be (core/README.md, "the job and our binary").
enum class InitMode {
  kFork,       ///< the forked sbx itself becomes PID 1
  kExecClone,  ///< PID 1 is exec'd from a read-only clone of our file
};

/// A host path that is opened in the parent, because the job's ids may not reach it.
struct SourceMount {
  std::string path;
  std::string beneath;
  bool is_dir = false;
  bool is_input = false;  ///< may be copied when it cannot be mapped
  confine::BindMode mode = confine::BindMode::kReadOnly;
  size_t step = 0;  ///< its Bind in `steps`
};

struct JailPlan {
  std::string id;
  bool has_id_range = false;
  uint32_t own_uid = 0;
  uint32_t own_gid = 0;
  InitMode init = InitMode::kFork;
  std::string binary;
  std::vector<confine::Step> steps;
  std::vector<SourceMount> sources;
  std::vector<backend::InputMount> inputs;
  agent::PayloadRules rules;
  confine::CgroupRequest cgroup;
  confine::CgroupLayout layout;
  std::vector<confine::InForce> expected;
  std::vector<std::string> warnings;
};

/// kUsage for contradictory mounts, kUnsupported for limits that nothing here can hold.
Result<JailPlan> make_plan(const backend::LaunchRequest& request, JailFacts facts);

std::string to_text(const JailPlan& plan);

}  // namespace sbx::jail
