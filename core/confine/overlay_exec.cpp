// Mount executor, the steps of roots that are written to: see mount_exec.h.
//
// Theory of operation. The kernel finds the parts of an overlay by path (descriptors only since
// Linux 6.13), in options that hold 255 bytes each, and only in our own mount namespace. So they
// are attached in a small tmpfs, in a directory each, and every overlay gets a directory of links
// there with names of one or two characters, which is the working directory while it is made. What
// the job reads in its mountinfo is therefore "lowerdir=1:0,upperdir=u,workdir=w". The overlay
// holds private clones, so the tmpfs goes with the host's tree (or, where the root was made before,
// at the end).
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/lead.h"
#include "core/confine/mount_exec.h"
#include "core/confine/mount_tools.h"
#include "core/confine/place.h"

namespace sbx::confine {

namespace {

constexpr uint64_t kNoPrivilege = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr const char* kProbe = "user.sbx.probe";
/// Its root, its directories and what overlayfs makes in it are not the job's to pay for.
constexpr uint64_t kOwnInodes = 32;

/// "n-1:…:0": overlayfs wants the topmost first.
std::string lower_names(size_t count) {
  std::string out;
  for (size_t i = count; i > 0; --i) {
    out += text::cat(out.empty() ? "" : ":", i - 1);
  }
  return out;
}

Result<struct statfs> statfs_of(int fd) {
  struct statfs info {};
  if (::fstatfs(fd, &info) != 0) return sys_error("fstatfs");
  return info;
}

}  // namespace

Status MountExecutor::run(const Stage& step) {
  const FsOption options[] = {{"size", "262144"}, {"mode", "0700"}};
  SBX_ASSIGN(stage_, new_mount("tmpfs", options, kNoPrivilege));
  if (scratch_.valid()) {  // the root is there already and must not be covered
    SBX_TRY(sys::mkdirat(scratch_.get(), "stage", 0700));
    SBX_TRY(sys::move_mount(stage_.get(), "", scratch_.get(), "stage", MOVE_MOUNT_F_EMPTY_PATH));
  } else {
    SBX_TRY(sys::move_mount(stage_.get(), "", AT_FDCWD, kStaging, MOVE_MOUNT_F_EMPTY_PATH));
  }
  for (size_t i = 0; i < step.dirs.size(); ++i) {
    const StagedDir& dir = step.dirs[i];
    UniqueFd opened;
    int tree = -1;
    if (dir.source_fd >= 0) {
      SBX_ASSIGN(tree, received(dir.source_fd, dir.source));
    } else {
      SBX_ASSIGN(opened, open_source(dir.source, dir.beneath, SourceDepth::kOneMount));
      tree = opened.get();
    }
    const std::string name = text::cat("d", i);
    SBX_TRY(set_attributes(tree, kNoPrivilege, 0, dir.source));
    SBX_TRY(sys::mkdirat(stage_.get(), name, 0700));
    SBX_TRY(sys::move_mount(tree, "", stage_.get(), name, MOVE_MOUNT_F_EMPTY_PATH));
  }
  return {};
}

/// Attached among what is staged, or it could not be cloned before Linux 6.15.
Status MountExecutor::run(const ScratchSpace& step) {
  if (!stage_.valid()) return Error(Errc::kInternal, "scratch space before anything is staged");
  ScratchSpace all = step;
  all.inodes += kOwnInodes;
  SBX_ASSIGN(scratch_, scratch_mount(all));
  SBX_TRY(sys::mkdirat(stage_.get(), "scratch", 0700));
  return sys::move_mount(scratch_.get(), "", stage_.get(), "scratch", MOVE_MOUNT_F_EMPTY_PATH);
}

/// A staged directory with an upper in the scratch space, like its lowest lower in owner and mode.
Result<std::string> MountExecutor::stage_throwaway(const std::string& name,
                                                   const OverlayLayer& lowest,
                                                   const std::string& part) {
  if (!scratch_.valid()) return Error(Errc::kInternal, "no scratch space for an overlay");
  SBX_ASSIGN(const struct stat like,
             sys::fstatat(stage_.get(), text::cat("d", lowest.dir, "/", lowest.sub), 0));
  const std::string dirs[] = {name,
                              text::cat(name, "/fs"),
                              text::cat(name, "/ovl"),
                              text::cat(name, "/fs/", part),
                              text::cat(name, "/ovl/", part)};
  for (const std::string& dir : dirs) {
    SBX_TRY(sys::mkdirat(scratch_.get(), dir, 0755));
  }
  SBX_ASSIGN(const UniqueFd upper, sys::openat(scratch_.get(), dirs[3], O_RDONLY | O_DIRECTORY));
  if (::fsetxattr(upper.get(), kProbe, "", 0, 0) != 0) {
    return sys_error("keep attributes of users in the scratch space");
  }
  (void)::fremovexattr(upper.get(), kProbe);
  SBX_TRY(sys::fchmod(upper.get(), like.st_mode & 07777));
  // An owner that is not mapped stays ours.
  (void)sys::fchown(upper.get(), like.st_uid, like.st_gid).ok();
  SBX_ASSIGN(const UniqueFd tree, sys::open_tree(scratch_.get(), name, OPEN_TREE_CLONE));
  const std::string staged = text::cat("t", name);
  SBX_TRY(sys::mkdirat(stage_.get(), staged, 0700));
  SBX_TRY(sys::move_mount(tree.get(), "", stage_.get(), staged, MOVE_MOUNT_F_EMPTY_PATH));
  return staged;
}

Status MountExecutor::run(const Overlay& step) {
  if (!stage_.valid() || step.lowers.empty()) {
    return Error(Errc::kInternal, "an overlay without staged directories");
  }
  const std::string links = text::cat("o", overlays_++);
  std::string upper = text::cat("d", step.upper);
  if (step.upper < 0) {
    SBX_ASSIGN(upper, stage_throwaway(links, step.lowers.front(), step.part));
  }
  SBX_TRY(sys::mkdirat(stage_.get(), links, 0700));
  SBX_ASSIGN(const UniqueFd dir, sys::openat(stage_.get(), links, O_RDONLY | O_DIRECTORY));
  for (size_t i = 0; i < step.lowers.size(); ++i) {
    const OverlayLayer& lower = step.lowers[i];
    SBX_TRY(sys::symlinkat(text::cat("../d", lower.dir, "/", lower.sub), dir.get(), text::cat(i)));
  }
  SBX_TRY(sys::symlinkat(text::cat("../", upper, "/fs/", step.part), dir.get(), "u"));
  SBX_TRY(sys::symlinkat(text::cat("../", upper, "/ovl/", step.part), dir.get(), "w"));
  if (::fchdir(dir.get()) != 0) return sys_error("enter the staged directories");
  const FsOption options[] = {{"userxattr", ""},
                              {"index", "off"},
                              {"lowerdir", lower_names(step.lowers.size())},
                              {"upperdir", "u"},
                              {"workdir", "w"}};
  Result<UniqueFd> mount = new_mount("overlay", options, kNoPrivilege);
  if (::chdir("/") != 0) return sys_error("leave the staged directories");
  if (!mount.ok()) return std::move(mount).error();
  SBX_ASSIGN(const struct statfs info, statfs_of(mount.value().get()));
  if ((info.f_flags & ST_RDONLY) != 0) {
    return Error(Errc::kSystem, "overlayfs cannot use its work directory and became read-only");
  }
  if (step.path != "/") return attach(mount.value().get(), step.path);
  root_ = std::move(mount).value();
  is_layered_ = true;
  // Not over the staged directories: their links lead through there.
  SBX_TRY(sys::mkdirat(stage_.get(), "root", 0700));
  return sys::move_mount(root_.get(), "", stage_.get(), "root", MOVE_MOUNT_F_EMPTY_PATH);
}

Status MountExecutor::run(const Place& step) {
  return place(root_.get(), step);
}

Status MountExecutor::run(const Lead& step) {
  Result<std::string> found = lead(root_.get(), scratch_.get(), step);
  if (!found.ok()) return step.is_optional ? Status() : std::move(found).error();
  if (found.value() != step.path) led_[step.path] = std::move(found).value();
  return {};
}

/// Where something that is mounted at `path` goes: the longest part of it that a Lead was for
/// decides.
std::string MountExecutor::led(const std::string& path) const {
  if (led_.empty()) return path;
  for (size_t end = path.size(); end != 0 && end != std::string::npos;
       end = path.rfind('/', end - 1)) {
    const auto found = led_.find(std::string_view(path).substr(0, end));
    if (found != led_.end()) return found->second + path.substr(end);
  }
  return path;
}

Status MountExecutor::run(const Tmpfs& step) {
  const FsOption options[] = {{"size", std::to_string(step.size.v)}, {"mode", "0755"}};
  SBX_ASSIGN(const UniqueFd mount, new_mount("tmpfs", options, kNoPrivilege));
  return attach(mount.get(), step.path);
}

Status MountExecutor::run(const Seal& step) {
  SBX_ASSIGN(const UniqueFd mount, open_target(step.path, O_PATH | O_NOFOLLOW));
  return set_attributes(mount.get(), MOUNT_ATTR_RDONLY, 0, step.path);
}

/// Nothing is believed of a tree that a job wrote to: what is at `path` must be our own proc.
Status MountExecutor::check_proc(const std::string& path) const {
  SBX_ASSIGN(const UniqueFd proc, open_target(path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  SBX_ASSIGN(const struct statfs info, statfs_of(proc.get()));
  if (info.f_type == PROC_SUPER_MAGIC) return {};
  return Error(Errc::kDenied, text::cat("what is at ", path, " is no proc"));
}

Result<UniqueFd> MountExecutor::without_mounts(const std::string& path) const {
  SBX_ASSIGN(const UniqueFd dir, open_target(path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  SBX_ASSIGN(const UniqueFd tree, sys::open_tree(dir.get(), "", OPEN_TREE_CLONE | AT_EMPTY_PATH));
  return sys::openat(tree.get(), ".", O_RDONLY | O_DIRECTORY);
}

/// Where the new root does not cover it, what was staged goes before the job comes.
Status MountExecutor::unstage() {
  if (!stage_.valid()) return {};
  if (scratch_.valid() && !is_layered_) {
    if (::fchdir(stage_.get()) != 0) return sys_error("enter the staged directories");
    SBX_TRY(sys::umount2(".", kDetach));
  }
  stage_.reset();
  return {};
}

}  // namespace sbx::confine
