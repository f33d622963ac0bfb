// Rules: what every program started inside is bound to, as plain data.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "core/confine/caps.h"
#include "core/confine/rlimits.h"

namespace sbx::agent {

/// Fixed when the sandbox starts; the agent applies them in each child before exec.
struct PayloadRules {
  uint32_t uid = 1000;  ///< inside
  uint32_t gid = 1000;
  std::vector<gid_t> groups;          ///< further ones of `uid`; only with `is_changing_ids`
  bool is_changing_ids = false;       ///< false: the agent runs as that id already (single-id map)
  confine::CapMask capabilities = 0;  ///< those kept (and made ambient)
  /// The same for programs that run as 0.
  confine::CapMask root_capabilities = 0;
  /// Set-user-id files may be made: no host directory can be written to.
  bool may_set_id_bits = false;
  bool is_nesting = false;  ///< seccomp variant
  bool is_using_landlock = false;
  confine::RlimitSet rlimits;

  /// The capabilities of a program that runs as `uid`.
  confine::CapMask kept() const { return uid == 0 ? root_capabilities : capabilities; }
};

/// Identity of a file, to recognise it whatever its name.
struct FileId {
  dev_t dev = 0;
  ino_t ino = 0;
  bool operator==(const FileId&) const = default;
};

}  // namespace sbx::agent
