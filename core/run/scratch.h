// Scratch: a private directory on the file system of an output place, where artifacts are put
// together before they appear there, and old ones vanish.
//
// It is noted in the state directory before it is made, so that whatever is left of it after
// kill -9 is found and removed by a later command (reclaim_scratch).
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::run {

/// Names of scratch directories begin so.
inline constexpr const char* kScratchPrefix = ".sbx-out-";

class Scratch {
 public:
  /// Makes one in the directory `parent`, mode 0700 whatever the umask. Without a state directory
  /// (empty) nothing is noted.
  static Result<Scratch> create(const std::string& parent, const std::string& state_dir);
  /// Only the note and the name: something is about to be renamed to it.
  static Result<Scratch> reserve(const std::string& parent, const std::string& state_dir);
  /// Removes what has its name, with all in it, and the note.
  ~Scratch();
  Scratch(Scratch&&) noexcept = default;
  Scratch& operator=(Scratch&&) = delete;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int fd() const { return fd_.get(); }
  int parent_fd() const { return parent_.get(); }
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  /// The same as the destructor, with its result.
  Status remove();

 private:
  Scratch() = default;

  UniqueFd parent_;  // invalid: nothing to remove
  UniqueFd fd_;
  UniqueFd notes_;
  std::string name_;
  std::string path_;
};

enum class Reclaim : bool { kDryRun, kRemove };

/// Removes scratch directories whose sbx is gone; a line for each one that was there. Costs one
/// failed open when there never was any.
std::vector<std::string> reclaim_scratch(const std::string& state_dir, Reclaim how);

/// `path` as an absolute one; empty when it is relative and we stand in no directory.
std::string absolute_path(const std::string& path);

}  // namespace sbx::run
