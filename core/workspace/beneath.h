// Beneath: steps through a hostile tree by directory descriptors: no link is followed, no mount
// entered, nothing but directories and regular files ever opened.
//
// A tree may be deeper than PATH_MAX and its names are any bytes. Paths here are relative to a
// descriptor, without "." and ".." components; "" is the descriptor's own directory.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::workspace {

/// The longest path that is walked, in bytes. A tree with longer ones is refused (kLimit): going
/// up from a directory costs its depth, and a tree made to be deep must not cost for ever.
inline constexpr std::size_t kMaxPath = std::size_t{64} << 10U;
/// The most names one directory may have (kLimit).
inline constexpr std::size_t kMaxNames = std::size_t{4} << 20U;

/// Opens one component with openat2(2) RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS
/// and RESOLVE_NO_XDEV. For directories (O_DIRECTORY) and O_PATH; see open_regular.
Result<UniqueFd> open_entry(int dirfd, const std::string& name, int flags);

/// Opens a regular file for reading; kUsage when it is no regular file (it is looked at through
/// O_PATH first, so a FIFO or device put in its place is not opened). Needs /proc.
Result<UniqueFd> open_regular(int dirfd, const std::string& name);

/// The directory `path` below `dirfd`, readable. kLimit beyond kMaxPath.
Result<UniqueFd> open_directory(int dirfd, std::string_view path);

/// Opens directories of one tree by path, cheaply when they come in the order of a walk.
class DirCursor {
 public:
  /// `base` is not owned and must outlive this.
  explicit DirCursor(int base) : base_(base) {}
  /// A descriptor of `path`, valid until the next call.
  Result<int> open(const std::string& path);
  /// Ditto for a tree that is being made here: `path` may not have changed its meaning.
  void forget() { fd_.reset(); }

 private:
  int base_;
  std::string path_;
  UniqueFd fd_;
};

/// All names in a directory but "." and "..", in the order of the directory. kLimit beyond
/// kMaxNames. The descriptor's position is moved.
Result<std::vector<std::string>> read_names(int dirfd);

/// Whether it is what overlayfs writes in place of a deleted name: a character device 0:0.
bool is_whiteout(const struct stat& st);
/// Whether a directory hides what lies below it: "user.overlay.opaque" is "y". A file system
/// without such attributes has none.
Result<bool> is_opaque(int dirfd);

using Xattr = std::pair<std::string, std::string>;  // name, value

/// The extended attributes of an open file or directory that belong to its content: "user." but
/// those of overlayfs, sorted by name. Names of overlayfs that the inside wrote itself are kept
/// there as "user.overlay.overlay.*" and are left out too.
Result<std::vector<Xattr>> content_xattrs(int fd);
/// All of them with their stored names.
Result<std::vector<Xattr>> all_xattrs(int fd);
/// `O_PATH` descriptors cannot be asked for attributes; this path can, and names the same object.
std::string proc_path(int fd);

/// Lets this process read and search what belongs to its own user whatever the mode says (a job may
/// have made a directory of mode 000), without changing what is stored: an unprivileged process
/// moves into a user namespace of its own in which it keeps its ids and has CAP_DAC_OVERRIDE over
/// files of its own user and group. For root there is nothing to do. A host that refuses user
/// namespaces makes no failure: such directories are then refused one by one. Affects the whole
/// process for ever: for a verb that runs alone, or a worker.
void reach_own_files();

/// Takes back, while it lives, what reach_own_files() gave: for writing where the user's own modes
/// are to be obeyed. Nothing for root.
class PlainRights {
 public:
  PlainRights();
  ~PlainRights();
  PlainRights(const PlainRights&) = delete;
  PlainRights& operator=(const PlainRights&) = delete;

 private:
  std::optional<std::uint64_t> old_;
};

/// "dir/name"; "name" when `dir` is "".
std::string join_path(std::string_view dir, std::string_view name);
/// "a/b/c" -> "a/b" and "c"; "c" -> "" and "c".
std::pair<std::string, std::string> split_path(const std::string& path);

}  // namespace sbx::workspace
