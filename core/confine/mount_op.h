// Mount steps: how a sandbox's file tree is made, as plain data with a text form.
//
// A step only describes; mount_exec.h carries it out inside the new namespaces. Paths named
// `path` are inside paths, always absolute, resolved below the new root only.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/base/units.h"

namespace sbx::confine {

/// Inside id that owns a made object; kKeepOwner leaves the maker's.
inline constexpr int32_t kKeepOwner = -1;

/// A tmpfs of `size` becomes the new root. First step.
struct NewRoot {
  Bytes size;
};

/// A kept directory of the host, in which the objects of the root were made before (mount_exec.h,
/// make_objects), becomes the new root, read-only. First step, in place of NewRoot.
struct KeptRoot {
  std::string source;             ///< only for the text form when `source_fd` is set
  int32_t source_fd = -1;         ///< index among the descriptors sent along: a detached mount
  std::vector<std::string> dirs;  ///< of its directories those that mounts go into
};

struct MakeDir {
  std::string path;  ///< its parent exists
  uint32_t mode = 0755;
  int32_t owner = kKeepOwner;
};

struct MakeFile {
  std::string path;
  std::string content;
  uint32_t mode = 0444;
};

struct MakeLink {
  std::string path;
  std::string target;
};

enum class BindKind { kDir, kFile, kDevice };
enum class BindMode { kReadOnly, kReadWrite };

/// A host file or tree at `path`, which exists already (an empty file or directory).
struct Bind {
  std::string source;      ///< host path; only for the text form when `source_fd` is set
  std::string beneath;     ///< not empty: `source` lies below this directory, whatever links say
  int32_t source_fd = -1;  ///< index among the descriptors sent along: a detached mount
  std::string path;
  BindKind kind = BindKind::kDir;
  BindMode mode = BindMode::kReadOnly;
};

/// One writable directory of the scratch space.
struct ScratchDir {
  std::string path;
  uint32_t mode = 0755;
  int32_t owner = kKeepOwner;
};

/// One tmpfs of `size` and `inodes` (or a file system that was sent along), seen at several places:
/// what the job may write is one number.
/// The first directory is also kept as a descriptor for the host (MountResult::work_dir).
struct Scratch {
  Bytes size;
  uint64_t inodes = 0;
  std::vector<ScratchDir> dirs;
  int32_t source_fd =
      -1;  ///< index among the descriptors sent along: a detached mount, not a tmpfs
};

/// The scratch space before its places are there: changes of a root that is thrown away are kept in
/// it. After Stage; the Scratch step then only shows it.
struct ScratchSpace {
  Bytes size;
  uint64_t inodes = 0;
  int32_t source_fd = -1;  ///< as in Scratch
};

/// A proc of the sandbox's own pid namespace.
struct Proc {
  std::string path;
};

/// A devpts instance of its own.
struct DevPts {
  std::string path;
};

/// Hides a file (behind the null device) or directory (behind an empty one); skipped when absent.
struct Mask {
  std::string path;
};

/// Makes what is at `path` read-only, with everything below; skipped when absent.
struct Freeze {
  std::string path;
};

/// No further user namespaces below the sandbox's own (user.max_user_namespaces = 0).
struct ForbidUserNamespaces {};

struct Hostname {
  std::string name;
};

/// Brings up `lo` of the sandbox's own network namespace.
struct Loopback {};

/// Makes the new root read-only (unless it is to be written to), enters it and drops the host's
/// tree. Last step.
struct EnterRoot {
  bool is_writable = false;
  std::string work_dir;  ///< not empty: kept as a descriptor for the host, in place of Scratch's
};

/// The sandbox's own part of the host's cgroup v2 tree, read-only. PID 1 was cloned into it.
struct ShowCgroup {
  std::string path;
};

/// A directory of the host that overlays are made of.
struct StagedDir {
  std::string source;      ///< host path; only for the text form when `source_fd` is set
  std::string beneath;     ///< as in Bind
  int32_t source_fd = -1;  ///< index among the descriptors sent along: a detached mount
};

/// Makes directories reachable for Overlay steps, which count them from 0; nobody else ever sees
/// them.
struct Stage {
  std::vector<StagedDir> dirs;
};

/// `sub` below a staged directory.
struct OverlayLayer {
  uint32_t dir = 0;
  std::string sub;  ///< relative; empty: the directory itself
};

/// An overlay (overlayfs with `userxattr`) at `path`; at "/" it becomes the new root, in place of
/// NewRoot.
struct Overlay {
  std::string path;
  std::vector<OverlayLayer> lowers;  ///< lowest first
  int32_t upper = -1;  ///< a staged directory with fs/PART and ovl/PART; -1: the scratch
                       ///< space, so that changes count there and go with it
  std::string part;
};

enum class PlaceKind { kDir, kFile, kLink };

/// What a mount or the job needs is there, in a root that somebody could write to before: made when
/// missing; anything of another type is moved aside, as NAME.sbx-displaced-N, and no link is
/// followed. A link is only made when its name is free.
struct Place {
  std::string path;  ///< its parent was placed before
  PlaceKind kind = PlaceKind::kDir;
  uint32_t mode = 0755;
  uint32_t least = 0755;       ///< what a directory that exists has to allow
  int32_t owner = kKeepOwner;  ///< of a directory: set also when it exists
  std::string target;          ///< of a link
};

/// Finds where `path` leads in the tree of an image, whose links are followed as if the new root
/// were the root; what is missing on the way is made. Steps after it that mount at `path` (or
/// below) mean that place. Refused where that is a place of the sandbox itself.
struct Lead {
  std::string path;
  PlaceKind kind = PlaceKind::kDir;  ///< kDir or kFile
  bool is_optional = false;          ///< what cannot be made is left out
};

/// A small tmpfs of our own, for places that the job must not change.
struct Tmpfs {
  std::string path;
  Bytes size;
};

/// Makes the mount at `path` read-only, but not those below it.
struct Seal {
  std::string path;
};

using Step = std::variant<NewRoot,
                          MakeDir,
                          MakeFile,
                          MakeLink,
                          Bind,
                          Scratch,
                          Proc,
                          DevPts,
                          Mask,
                          Freeze,
                          ForbidUserNamespaces,
                          Hostname,
                          Loopback,
                          EnterRoot,
                          KeptRoot,
                          ShowCgroup,
                          Stage,
                          Overlay,
                          Place,
                          Tmpfs,
                          Seal,
                          ScratchSpace,
                          Lead>;

/// One line, without line feed; inside-controlled bytes escaped.
std::string to_text(const Step& step);

}  // namespace sbx::confine
