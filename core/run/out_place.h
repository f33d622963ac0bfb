// Out place: knowing again what a run made with -o, and taking away only that.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/run/record.h"

namespace sbx::run {

/// Why the directory `dir` is not wholly sbx's: no complete manifest.json of ours in it (or not the
/// one whose digest is `manifest_sha256`, when that is not empty), something in it that the
/// manifest does not list, or another owner. Empty: it is. What the manifest lists may be missing.
std::string why_not_ours(int dir, const std::string& manifest_sha256);

/// Whether what `place` describes is there, by its inode. A run that was killed after it said where
/// its files would appear may never have got there.
bool is_there(const OutPlace& place);

struct Removal {
  enum class End : std::uint8_t {
    kRemoved,
    kGone,    ///< there was nothing any more
    kLeft,    ///< it is not, or not only, what the run made: `why`
    kFailed,  ///< `why`
  };
  End end = End::kGone;
  std::string why;
};

/// Removes the directory or archive if it still is what `place` describes: a directory vanishes
/// under its name at once, whole. kShared places are never touched.
Removal remove_place(const OutPlace& place, const std::string& state_dir);

}  // namespace sbx::run
