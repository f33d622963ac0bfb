// Place: the directory of kernels below a state directory: its lock, and the hidden directories in
// which kernels are made and removed.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::kernel {

std::string kernels_dir(const std::string& state_dir);
inline constexpr const char* kInitramfsDir = "initramfs";
inline constexpr const char* kLockFile = "lock";
inline constexpr std::string_view kTempPrefix = ".tmp-";

/// What no kernel can be called, being something else in that directory.
bool is_reserved(std::string_view name);

/// Opens it; made when it is missing.
Result<UniqueFd> open_kernels_dir(const std::string& state_dir);
/// Waits until nobody else changes what is there.
Result<UniqueFd> take_lock(int kernels);

/// A fresh hidden directory, locked as long as this lives, and removed with what is in it unless it
/// was given a name.
class Draft {
 public:
  /// Below the directory `kernels`, whose path is `where`. It must outlive this.
  static Result<Draft> make(int kernels, const std::string& where);
  ~Draft();
  Draft(Draft&& other) noexcept;
  Draft& operator=(Draft&&) = delete;
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  /// Flushes it and calls it `name`, in place of what was called so, which is removed. The caller
  /// holds the lock.
  Status commit(const std::string& name);

 private:
  Draft() = default;
  int kernels_ = -1;  // -1: nothing to remove
  UniqueFd fd_;
  std::string name_;
  std::string path_;
};

/// Takes the name away, then removes it: half of one is never found. The caller holds the lock.
Status remove_whole(int kernels, const std::string& name);

/// Names of hidden directories that nobody holds.
std::vector<std::string> abandoned(int kernels);
/// Removes one, unless somebody holds it.
Status remove_abandoned(int kernels, const std::string& name);

}  // namespace sbx::kernel
