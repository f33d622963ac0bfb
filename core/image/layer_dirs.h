// Layer dirs: the directories of a layer that is being written, found and made by path.
//
// Theory of operation
//   1. A directory is opened by openat2(2) beneath the root of the layer, following no link. Where
//      a component is a link that the layer itself made, it is resolved here as text, as if the
//      root of the layer were "/", and what comes of that is opened in the same way.
//   2. One directory is held: that of the last member. Members come in runs of one directory.
//   3. Writing into a directory changes its time; what it was is put back when it is left.
//   4. A directory that no member names is made all the same and remembered ("implied"): what it is
//      like depends on the layers below.
//   5. A whiteout gives way to a directory that comes later; that one hides what is below
//      (opaque), as the order of the two means nothing.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <set>
#include <string>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::image {

/// Most bytes of names that are remembered for one layer: kLimit above.
inline constexpr std::size_t kMaxNotes = std::size_t{64} << 20U;

class LayerDirs {
 public:
  /// `root`: an empty directory. At most `depth` directories below each other.
  LayerDirs(UniqueFd root, std::size_t depth);

  /// The directory `path`, which becomes the path without links; valid until the next call. Made
  /// where it is missing, with the time `when`. kDenied when it is no directory.
  Result<int> enter(std::string& path, const timespec& when);
  /// The same for looking: nothing is made, nothing stays held. kNotFound.
  Result<UniqueFd> find(std::string& path);

  /// The held directory has been changed.
  void touch() { is_touched_ = true; }
  /// Holds `fd`, the directory `path`, which is to have the time `when` in the end.
  Status hold(UniqueFd fd, const std::string& path, const timespec& when);
  /// Sets the time that the root is to have in the end.
  Status set_root_time(const timespec& when);
  /// Leaves the held directory.
  Status leave();

  /// Makes room for something at `name` in `dirfd`, which is the directory `dir`: removes what is
  /// there. Says what that was (st_mode, 0 for nothing).
  Result<mode_t> clear(int dirfd, const std::string& dir, const std::string& name);

  /// Directories that were made without a member of their own.
  const std::set<std::string>& implied() const { return implied_; }
  /// A member of its own has come.
  void name(const std::string& path) { implied_.erase(path); }

  int root() const { return root_.get(); }

 private:
  Result<UniqueFd> open(std::string_view path) const;
  Result<std::string> without_links(std::string_view path);
  Result<UniqueFd> make(const std::string& path, const timespec& when);
  Result<UniqueFd> make_one(int dirfd,
                            const std::string& path,
                            const std::string& name,
                            const timespec& when);
  Status imply(const std::string& path);

  UniqueFd root_;
  std::size_t depth_;
  std::uint64_t link_steps_ = 0;
  std::string asked_;  // the path that enter() was last called with
  std::string path_;   // of `fd_`
  UniqueFd fd_;
  timespec time_{};
  bool is_touched_ = false;
  std::set<std::string> implied_;
  std::size_t implied_bytes_ = 0;
};

/// Marks a directory so that what the layers below have in it is not seen (overlayfs, userxattr).
Status set_opaque(int dirfd);
/// Sets the time of modification; the time of access stays.
Status set_time(int fd, const timespec& when);

}  // namespace sbx::image
