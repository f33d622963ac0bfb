// Live dir: a directory that one virtual machine has below the state directory while it lives.
//
//   vm/live/<id>        mode 0700; what is in it is worth nothing once its holder is gone
//   vm/live/<id>.lock   flock(2) by the process that the machine belongs to
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::vm {

class LiveDir {
 public:
  /// Makes it, empty. kExists when somebody has that id.
  static Result<LiveDir> make(const std::string& state_dir, const std::string& id);
  /// Removes it with all that is in it.
  ~LiveDir();
  LiveDir(LiveDir&&) noexcept = default;
  LiveDir& operator=(LiveDir&&) = delete;
  LiveDir(const LiveDir&) = delete;
  LiveDir& operator=(const LiveDir&) = delete;

  int fd() const { return dir_.get(); }

 private:
  LiveDir(UniqueFd parent, std::string name, UniqueFd lock, UniqueFd dir)
      : parent_(std::move(parent)),
        name_(std::move(name)),
        lock_(std::move(lock)),
        dir_(std::move(dir)) {}

  UniqueFd parent_;
  std::string name_;
  UniqueFd lock_;
  UniqueFd dir_;
};

/// Ids of those whose holder is gone.
std::vector<std::string> stale_live_dirs(const std::string& state_dir);
/// Removes one if its holder is (still) gone.
Status remove_live_dir(const std::string& state_dir, const std::string& id);

}  // namespace sbx::vm
