// Fs: files below a directory descriptor: rooted opening, atomic writing, safe removal.
// Paths from users, images or the inside go through open_in; nothing here joins such paths.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

namespace sbx::fs {

/// Opens a directory for reading and as a base for the calls below. Follows links.
Result<UniqueFd> open_dir(const std::string& path);

/// Opens `rel` as if `dirfd` were "/" (openat2(2) RESOLVE_IN_ROOT and RESOLVE_NO_MAGICLINKS): "..",
/// absolute paths and links stay inside. `mode` only with O_CREAT.
Result<UniqueFd> open_in(int dirfd, const std::string& rel, int flags, mode_t mode = 0);

/// Replaces `name` in `dirfd` as a whole: a temporary file, fsync, rename, fsync of the directory.
/// `name` is one component. On failure the old content is untouched and the temporary file gone.
/// `mode` is exact (umask does not apply). The temporary file, ".sbx-" and 16 random characters, is
/// locked (flock(2)) while it is written.
Status write_atomic(int dirfd, const std::string& name, std::string_view content, mode_t mode);

/// The content of a file; kLimit when it is longer than `cap`. Works where the size says 0 (/proc).
/// Blocks on a FIFO.
Result<std::string> read_file(const std::string& path, Bytes cap);
/// The same below `dirfd`; a final link is not followed, and a FIFO is not waited for (empty).
Result<std::string> read_file_at(int dirfd, const std::string& name, Bytes cap);

/// Removes `name` in `dirfd` and everything below it, whatever made it: never follows a link, never
/// leaves the file system or enters another mount, opens directories the caller owns but may not
/// read, needs a few dozen descriptors and no stack however deep the tree is. A name that is not
/// there is success. Goes on after a failure and reports the first one.
Status remove_tree(int dirfd, const std::string& name);

/// Makes `path` and its missing parents with `mode` (umask applies). Success when it is a directory
/// already.
Status mkdirs(const std::string& path, mode_t mode);

/// The process's umask without the owner's bits, as long as it lives: what sbx makes for its user
/// it has to be able to enter, even under umask 0777.
class OwnerUmask {
 public:
  OwnerUmask();
  ~OwnerUmask();
  OwnerUmask(const OwnerUmask&) = delete;
  OwnerUmask& operator=(const OwnerUmask&) = delete;

 private:
  mode_t old_;
};

/// A fresh private directory (mode 0700), removed with its content by the destructor.
class TempDir {
 public:
  /// Makes "<parent>/<prefix><random>". `parent` must exist.
  static Result<TempDir> create(const std::string& parent, const std::string& prefix);
  ~TempDir();
  TempDir(TempDir&& other) noexcept = default;
  TempDir& operator=(TempDir&& other) noexcept;
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }
  /// Leaves the directory in place from now on.
  void keep() { parent_.reset(); }
  /// Removes it now and says how that went; later calls do nothing.
  Status remove();

 private:
  TempDir() = default;

  UniqueFd parent_;  // invalid: nothing to remove
  UniqueFd fd_;
  std::string name_;
  std::string path_;
};

/// `count` random lower-case letters and digits (getrandom(2)); for names, not for keys.
std::string random_name(std::size_t count);

}  // namespace sbx::fs
