// Scope: asks the user's own systemd for a control group, where a login session gives us none.
//
// A session of ssh or a text console lies in a group of root's; the user's manager (user@.service)
// has a delegated one, and moves a process of the user's into a transient scope there when asked to
// over its bus. Nothing is asked where no such manager runs. Never prompts; waits at most as long
// as it is told to.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/confine/cgroup_layout.h"

namespace sbx::confine {

/// What the decision depends on.
struct ScopeView {
  bool is_root = false;
  bool is_delegated = false;  ///< a group can be made already
  bool has_manager = false;   ///< the user's systemd listens in `runtime_dir`
  std::string runtime_dir;    ///< $XDG_RUNTIME_DIR, or /run/user/UID when that is unset
  std::string busctl;         ///< path of busctl(1); empty when there is none
  pid_t pid = 0;
};
ScopeView look_for_manager(const CgroupLayout& layout);

/// The one call of busctl(1) that moves us; its environment adds XDG_RUNTIME_DIR.
struct ScopeCall {
  std::vector<std::string> argv;
  std::string unit;
  std::string runtime_dir;
};
/// Pure. nullopt when there is nothing to ask for or nobody to ask.
std::optional<ScopeCall> plan_scope(const ScopeView& view);

/// Makes the call and waits until `self_cgroup` (a file like /proc/self/cgroup) names the scope.
/// kTimeout when that takes longer than `patience`; busctl is killed then. Blocks.
Status enter_scope(const ScopeCall& call, Millis patience, const std::string& self_cgroup);

}  // namespace sbx::confine
