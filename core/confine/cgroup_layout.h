// Cgroup layout: where this host lets us make control groups, one answer per controller.
// Reads what is mounted and where we are; it changes nothing. Making groups is the Cgroup's work.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace sbx::confine {

enum class CgroupVersion : std::uint8_t { kNone, kV1, kV2 };

/// Where groups with one controller can be made. Exactly one of `dir` and `cause` is filled.
struct ControllerPlace {
  CgroupVersion version = CgroupVersion::kNone;
  std::string dir;    ///< absolute; groups are made below it
  std::string cause;  ///< why there is none, e.g. "the memory controller is not delegated to us"
  std::string fix;    ///< what the user can do about it: a command or a setting

  bool usable() const { return version != CgroupVersion::kNone; }
};

/// Whether memory of a group can leave it for swap space.
enum class SwapState : std::uint8_t {
  kOff,        ///< the host has no swap: nothing to limit
  kCounted,    ///< a group's swap can be limited
  kUncounted,  ///< swap is on, and the kernel does not count it per group
};

/// What this host offers. Places of several controllers may be the same directory.
struct CgroupLayout {
  ControllerPlace memory;
  ControllerPlace pids;
  ControllerPlace cpu;
  ControllerPlace accounting;        ///< CPU time used: cpuacct (v1); every group has it in v2
  ControllerPlace freezer;           ///< freezer (v1); every group has it in v2
  ControllerPlace cpuset;            ///< v1; not looked for where memory is in v2
  SwapState swap = SwapState::kOff;  ///< looked at only when `memory` is usable

  /// One line per controller, for --dry-run, doctor and bug reports.
  std::string to_text() const;
};

/// Finds the places. Costs a small read from /proc and some dozen stat(2) and access(2) calls, one
/// more read where hierarchies are not at their usual places. Fails only when /proc cannot be read;
/// a host without cgroups is a layout whose places have a cause.
Result<CgroupLayout> probe_cgroups();

/// What probe_cgroups looks at, so that tests can show it other hosts.
struct CgroupView {
  std::string mountinfo;    ///< text of /proc/self/mountinfo
  std::string self_cgroup;  ///< text of /proc/self/cgroup
  std::string root;         ///< put before each mount point ("" on a real host)
  bool is_root = false;     ///< effective uid 0
  std::uint32_t uid = 0;    ///< for the text of a fix
  std::int32_t shell = 0;   ///< pid of the process that started us, likewise
};
CgroupLayout find_cgroup_places(const CgroupView& view);

}  // namespace sbx::confine
