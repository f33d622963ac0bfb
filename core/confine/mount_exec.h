// Mount executor: carries out mount steps inside fresh user, mount, pid, net, ipc and uts
// namespaces.
//
// Theory of operation. PID 1 of the sandbox calls execute() once a step, in the order of the plan:
//   1. NewRoot makes a tmpfs and attaches it over the host's /proc in our own mount namespace (an
//      existing directory, so that nothing is created on the host tree).
//   2. Every other step works on descriptors below that root, opened with RESOLVE_IN_ROOT and
//      RESOLVE_NO_SYMLINKS; mounts are made detached (fsopen, open_tree), get their flags, and are
//      moved onto the opened descriptor last, so that no half-restricted mount is ever visible.
//   3. Host sources are opened by path in our own mount namespace, or arrive as detached mounts
//      from the parent, which may read what we may not.
//   4. EnterRoot seals the root, pivots into it and detaches everything of the host.
// A root that keeps what is written to it is an Overlay instead of NewRoot (overlay_exec.cpp). No
// object in it is believed: Place makes sure of each mount's target first.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/mount_op.h"

namespace sbx::confine {

/// Whether what is mounted below a source comes along.
enum class SourceDepth : uint8_t { kRecursive, kOneMount };

/// A detached mount of the host tree or file at `source`. With `beneath` a source that leads out of
/// that directory by `..` or a link is kDenied. Needs CAP_SYS_ADMIN over the current mount
/// namespace.
Result<UniqueFd> open_source(const std::string& source,
                             const std::string& beneath,
                             SourceDepth depth = SourceDepth::kRecursive);

/// Makes the MakeDir, MakeFile and MakeLink among `steps` below `dirfd`, an empty directory of the
/// caller's, and syncs what was written; for a KeptRoot later. Any other step is kInternal.
Status make_objects(int dirfd, std::span<const Step> steps);

class MountExecutor {
 public:
  /// The detached mounts that Bind::source_fd counts; not owned, outlive the steps.
  void set_sources(std::span<const UniqueFd> sources) { sources_ = sources; }

  /// Cuts mount propagation from and to the host's namespace, and clears the umask so that modes
  /// are exact. Call before the first step.
  static Status isolate();
  Status execute(const Step& step);

  /// The first scratch directory without what is mounted in it, for the host to read at the end.
  UniqueFd take_work_dir() { return std::move(work_dir_); }

 private:
  friend Status make_objects(int dirfd, std::span<const Step> steps);

  Status run(const NewRoot& step);
  Status run(const KeptRoot& step);
  Status run(const MakeDir& step);
  Status run(const MakeFile& step);
  Status run(const MakeLink& step);
  Status run(const Bind& step);
  Status run(const Scratch& step);
  Status run(const Proc& step);
  Status run(const DevPts& step);
  Status run(const Mask& step);
  Status run(const Freeze& step);
  Status run(const ForbidUserNamespaces& step);
  Status run(const Hostname& step);
  Status run(const Loopback& step);
  Status run(const EnterRoot& step);
  Status run(const ShowCgroup& step);
  Status run(const Stage& step);
  Status run(const Overlay& step);
  Status run(const Place& step);
  Status run(const Tmpfs& step);
  Status run(const Seal& step);
  Status run(const ScratchSpace& step);
  Status run(const Lead& step);

  Result<int> received(int32_t source_fd, const std::string& source) const;
  Result<UniqueFd> scratch_mount(const ScratchSpace& step) const;
  std::string led(const std::string& path) const;
  Result<UniqueFd> open_target(const std::string& path, int flags) const;
  Status attach(int mount_fd, const std::string& named) const;
  Result<std::string> stage_throwaway(const std::string& name,
                                      const OverlayLayer& lowest,
                                      const std::string& part);
  Status check_proc(const std::string& path) const;
  Result<UniqueFd> without_mounts(const std::string& path) const;
  Status unstage();

  std::span<const UniqueFd> sources_;
  UniqueFd root_;
  std::string kept_root_;  ///< KeptRoot::source; empty: a root of our own
  UniqueFd work_dir_;
  UniqueFd scratch_;         ///< the whole scratch space, covered in the tree
  UniqueFd stage_;           ///< where Overlay finds its parts
  size_t overlays_ = 0;      ///< made up to now
  bool is_layered_ = false;  ///< the root is an Overlay: somebody may have written to it before
  std::set<std::string, std::less<>>
      made_dirs_;  ///< inside paths; no link leads to or through them
  std::map<std::string, std::string, std::less<>> led_;  ///< Lead: path, and where it leads
};

}  // namespace sbx::confine
