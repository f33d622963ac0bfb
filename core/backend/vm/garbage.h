// Garbage: what virtual machines left in the state directory that nobody has any more, and
// templates that nobody starts from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace sbx::vm {

struct Stale {
  std::string path;  ///< below the state directory: "vm/live/…", "vm/templates/…"
  std::string why;
  std::uint64_t bytes = 0;  ///< on the disk
};
/// Reads only.
std::vector<Stale> stale_files(const std::string& state_dir);
/// Looks again first; what is gone already is success.
Status remove_stale(const std::string& state_dir, const Stale& stale);

}  // namespace sbx::vm
