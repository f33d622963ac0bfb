// Mount executor: see mount_exec.h.
#include "core/confine/mount_exec.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/mount_tools.h"

namespace sbx::confine {

namespace {

// mount(2) flag that <linux/mount.h> lacks (it cannot be mixed with sys/mount.h).
constexpr uint64_t kPrivate = 1UL << 18;  // MS_PRIVATE
constexpr std::string_view kNullDevice = "/dev/null";
constexpr unsigned kNullMajor = 1;
constexpr unsigned kNullMinor = 3;

constexpr uint64_t kQuiet = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

Status set_owner(int dirfd, const std::string& name, int32_t owner) {
  if (owner == kKeepOwner) return {};
  return sys::fchownat(
      dirfd, name, static_cast<uid_t>(owner), static_cast<gid_t>(owner), AT_SYMLINK_NOFOLLOW);
}

/// The umask is 0 (isolate() saw to that), so the mode is exact.
Status make_dir(int dirfd, const std::string& name, uint32_t mode, int32_t owner) {
  SBX_TRY(sys::mkdirat(dirfd, name, mode));
  return set_owner(dirfd, name, owner);
}

}  // namespace

std::string relative(const std::string& path) {
  const size_t start = path.find_first_not_of('/');
  return start == std::string::npos ? "." : path.substr(start);
}

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

Status set_attributes(int mount_fd, uint64_t set, unsigned flags, const std::string& what) {
  mount_attr attr{};
  attr.attr_set = set;
  // What the parent opened and sent along is still a peer of the host's own mount where those are
  // shared (systemd makes all of them so): what we mount in it would appear there.
  attr.propagation = kPrivate;
  auto done = sys::mount_setattr(mount_fd, "", flags | AT_EMPTY_PATH, attr);
  if (!done.ok()) return std::move(done).error().prefixed(what);
  return {};
}

Result<UniqueFd> new_mount(const std::string& type,
                           std::span<const FsOption> options,
                           unsigned attributes) {
  SBX_ASSIGN(const UniqueFd context, sys::fsopen(type));
  for (const FsOption& option : options) {
    if (option.value.empty()) {
      SBX_TRY(sys::fsconfig_set_flag(context.get(), option.key));
    } else {
      SBX_TRY(sys::fsconfig_set_string(context.get(), option.key, option.value));
    }
  }
  SBX_TRY(sys::fsconfig_create(context.get()));
  return sys::fsmount(context.get(), attributes);
}

Result<UniqueFd> open_source(const std::string& source,
                             const std::string& beneath,
                             SourceDepth depth) {
  const unsigned flags =
      OPEN_TREE_CLONE | (depth == SourceDepth::kRecursive ? unsigned{AT_RECURSIVE} : 0U);
  if (beneath.empty()) {
    return sys::open_tree(AT_FDCWD, source, flags);
  }
  if (source != beneath && !source.starts_with(beneath + "/")) {
    return Error(Errc::kDenied, text::cat(source, " is not below ", beneath));
  }
  const std::string rest = source.size() > beneath.size() ? source.substr(beneath.size() + 1) : ".";
  // Its name is canonical; a link that appears on the way now was put there to lead us astray.
  SBX_ASSIGN(const UniqueFd dir,
             sys::openat2(AT_FDCWD, beneath, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS));
  SBX_ASSIGN(const UniqueFd found,
             sys::openat2(dir.get(), rest, O_PATH, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS));
  return sys::open_tree(found.get(), "", flags | AT_EMPTY_PATH);
}

Status make_objects(int dirfd, std::span<const Step> steps) {
  MountExecutor maker;
  SBX_ASSIGN(maker.root_, sys::dup(dirfd));
  for (const Step& step : steps) {
    const bool is_object = std::holds_alternative<MakeDir>(step) ||
                           std::holds_alternative<MakeFile>(step) ||
                           std::holds_alternative<MakeLink>(step);
    if (!is_object) return Error(Errc::kInternal, text::cat("not an object: ", to_text(step)));
    const mode_t before = ::umask(0);
    Status made = maker.execute(step);
    ::umask(before);
    if (!made.ok()) return made;
    const auto* file = std::get_if<MakeFile>(&step);
    if (file == nullptr || file->content.empty()) continue;
    SBX_ASSIGN(const UniqueFd written, maker.open_target(file->path, O_RDONLY | O_NOFOLLOW));
    if (::fdatasync(written.get()) != 0) return sys_error(text::cat("sync ", file->path));
  }
  return {};
}

Status MountExecutor::isolate() {
  ::umask(0);
  mount_attr attr{};
  attr.propagation = kPrivate;
  return sys::mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, attr);
}

Status MountExecutor::execute(const Step& step) {
  return std::visit([this](const auto& s) { return run(s); }, step);
}

Result<UniqueFd> MountExecutor::open_target(const std::string& path, int flags) const {
  return sys::openat2(root_.get(), relative(path), static_cast<uint64_t>(flags), 0, kStrictly);
}

/// Where no component can be a link (we made the parent), the kernel looks the path up itself;
/// anywhere else the target is opened first, with links refused.
Status MountExecutor::attach(int mount_fd, const std::string& named) const {
  const std::string path = led(named);
  if (made_dirs_.contains(parent_of(path))) {
    Status done =
        sys::move_mount(mount_fd, "", root_.get(), relative(path), MOVE_MOUNT_F_EMPTY_PATH);
    if (done.ok() || kept_root_.empty() || done.error().code() != Errc::kNotFound) return done;
    return Error(Errc::kSystem,
                 text::cat("somebody changed ", kept_root_, ": remove it, it will be made anew"));
  }
  SBX_ASSIGN(const UniqueFd target, open_target(path, O_PATH | O_NOFOLLOW));
  return sys::move_mount(
      mount_fd, "", target.get(), "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

Status MountExecutor::run(const NewRoot& step) {
  const FsOption options[] = {{"size", std::to_string(step.size.v)}, {"mode", "0755"}};
  SBX_ASSIGN(root_, new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
  made_dirs_.insert("");
  return sys::move_mount(root_.get(), "", AT_FDCWD, kStaging, MOVE_MOUNT_F_EMPTY_PATH);
}

Result<int> MountExecutor::received(int32_t source_fd, const std::string& source) const {
  if (static_cast<size_t>(source_fd) >= sources_.size()) {
    return Error(Errc::kInternal, text::cat("no descriptor came along for ", source));
  }
  return sources_[static_cast<size_t>(source_fd)].get();
}

Status MountExecutor::run(const KeptRoot& step) {
  if (step.source_fd >= 0) {
    SBX_ASSIGN(const int tree, received(step.source_fd, step.source));
    SBX_ASSIGN(root_, sys::dup(tree));
  } else {
    SBX_ASSIGN(root_, sys::open_tree(AT_FDCWD, step.source, OPEN_TREE_CLONE));
  }
  constexpr uint64_t kAttributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  SBX_TRY(set_attributes(root_.get(), kAttributes, 0, step.source));
  made_dirs_.insert(step.dirs.begin(), step.dirs.end());
  kept_root_ = step.source;
  return sys::move_mount(root_.get(), "", AT_FDCWD, kStaging, MOVE_MOUNT_F_EMPTY_PATH);
}

Status MountExecutor::run(const MakeDir& step) {
  SBX_TRY(make_dir(root_.get(), relative(step.path), step.mode, step.owner));
  if (made_dirs_.contains(parent_of(step.path))) made_dirs_.insert(step.path);
  return {};
}

Status MountExecutor::run(const MakeFile& step) {
  if (step.content.empty()) {
    // No final or inner link is followed in a tree that we made, and no host tree is written to.
    if (::mknodat(root_.get(), relative(step.path).c_str(), S_IFREG | step.mode, 0) != 0) {
      return sys_error(text::cat("make file ", step.path));
    }
    return {};
  }
  SBX_ASSIGN(
      const UniqueFd file,
      sys::openat2(
          root_.get(), relative(step.path), O_WRONLY | O_CREAT | O_EXCL, step.mode, kStrictly));
  return sys::write_all(file.get(), step.content);
}

Status MountExecutor::run(const MakeLink& step) {
  return sys::symlinkat(step.target, root_.get(), relative(step.path));
}

Status MountExecutor::run(const Bind& step) {
  UniqueFd opened;
  int tree = -1;
  if (step.source_fd >= 0) {
    SBX_ASSIGN(tree, received(step.source_fd, step.source));
  } else {
    SBX_ASSIGN(opened, open_source(step.source, step.beneath));
    tree = opened.get();
  }
  // A directory on a file, or the reverse, is refused by move_mount itself.
  if (step.kind == BindKind::kDevice) {
    SBX_ASSIGN(const struct stat info, sys::fstat(tree));
    if (!S_ISCHR(info.st_mode)) {
      return Error(Errc::kUnsupported, text::cat("the host's ", step.source, " is no device"));
    }
    if (step.path == kNullDevice && info.st_rdev != makedev(kNullMajor, kNullMinor)) {
      return Error(Errc::kUnsupported, "the host's /dev/null is not the null device");
    }
  }
  if (step.kind != BindKind::kDevice) {
    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if (step.mode == BindMode::kReadOnly) attributes |= MOUNT_ATTR_RDONLY;
    SBX_TRY(set_attributes(tree, attributes, AT_RECURSIVE, step.source));
  }
  return attach(tree, step.path);
}

Result<UniqueFd> MountExecutor::scratch_mount(const ScratchSpace& step) const {
  if (step.source_fd >= 0) {
    if (static_cast<size_t>(step.source_fd) >= sources_.size()) {
      return Error(Errc::kInternal, "no descriptor came along for the scratch space");
    }
    return sys::dup(sources_[static_cast<size_t>(step.source_fd)].get(), 3);
  }
  const FsOption options[] = {{"size", std::to_string(step.size.v)},
                              // Its own root and directories count, too.
                              {"nr_inodes", std::to_string(step.inodes)},
                              {"mode", "0755"}};
  return new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

Status MountExecutor::run(const Scratch& step) {
  if (step.dirs.empty()) return Error(Errc::kInternal, "scratch space without a directory");
  UniqueFd mount = std::move(scratch_);
  if (!mount.valid()) {
    SBX_ASSIGN(mount,
               scratch_mount({step.size, step.inodes + step.dirs.size() + 1, step.source_fd}));
    // A detached mount cannot be cloned before Linux 6.15, so it is attached at its first place
    // while its directories are taken, each as a mount of its own. The first of them then covers
    // it: an umount would cost a wait for RCU.
    SBX_TRY(attach(mount.get(), step.dirs.front().path));
  }
  std::vector<UniqueFd> trees;
  for (size_t i = 0; i < step.dirs.size(); ++i) {
    const std::string name = std::to_string(i);
    SBX_TRY(make_dir(mount.get(), name, step.dirs[i].mode, step.dirs[i].owner));
    SBX_ASSIGN(UniqueFd tree, sys::open_tree(mount.get(), name, OPEN_TREE_CLONE));
    trees.push_back(std::move(tree));
  }
  // On the covered mount, where no input will be mounted; another detached mount would cost a wait
  // for RCU when it is closed.
  SBX_ASSIGN(work_dir_, sys::openat(mount.get(), "0", O_RDONLY | O_DIRECTORY));
  for (size_t i = 0; i < step.dirs.size(); ++i) {
    SBX_TRY(attach(trees[i].get(), step.dirs[i].path));
  }
  scratch_ = std::move(mount);
  return {};
}

Status MountExecutor::run(const Proc& step) {
  SBX_ASSIGN(const UniqueFd mount, new_mount("proc", {}, kQuiet));
  SBX_TRY(attach(mount.get(), step.path));
  return is_layered_ ? check_proc(step.path) : Status();
}

Status MountExecutor::run(const DevPts& step) {
  // Each devpts is an instance of its own since Linux 4.7.
  const FsOption options[] = {{"ptmxmode", "0666"}, {"mode", "0620"}};
  SBX_ASSIGN(const UniqueFd mount,
             new_mount("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
  return attach(mount.get(), step.path);
}

/// Rooted where our cgroup namespace is (cgroup_namespaces(7)): it was made in the job's own group.
Status MountExecutor::run(const ShowCgroup& step) {
  SBX_ASSIGN(const UniqueFd mount, new_mount("cgroup2", {}, kQuiet | MOUNT_ATTR_RDONLY));
  return attach(mount.get(), step.path);
}

/// The cover of a file is a clone of the sandbox's own null device, whose type was checked.
Status MountExecutor::run(const Mask& step) {
  const std::string name = relative(step.path);
  const Result<struct stat> info = sys::fstatat(root_.get(), name, AT_SYMLINK_NOFOLLOW);
  if (!info.ok()) {
    if (info.error().code() == Errc::kNotFound) return {};
    return info.error();
  }
  UniqueFd cover;
  if (S_ISDIR(info.value().st_mode)) {
    const FsOption options[] = {{"size", "4096"}, {"nr_inodes", "1"}, {"mode", "0555"}};
    SBX_ASSIGN(cover, new_mount("tmpfs", options, kQuiet | MOUNT_ATTR_RDONLY));
  } else {
    SBX_ASSIGN(cover,
               sys::open_tree(root_.get(), relative(std::string(kNullDevice)), OPEN_TREE_CLONE));
  }
  return sys::move_mount(cover.get(), "", root_.get(), name, MOVE_MOUNT_F_EMPTY_PATH);
}

Status MountExecutor::run(const Freeze& step) {
  const std::string name = relative(step.path);
  const Result<UniqueFd> tree =
      sys::open_tree(root_.get(), name, OPEN_TREE_CLONE | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW);
  if (!tree.ok()) {
    if (tree.error().code() == Errc::kNotFound) return {};
    return tree.error();
  }
  SBX_TRY(set_attributes(tree.value().get(), MOUNT_ATTR_RDONLY, AT_RECURSIVE, step.path));
  return sys::move_mount(tree.value().get(), "", root_.get(), name, MOVE_MOUNT_F_EMPTY_PATH);
}

Status MountExecutor::run(const ForbidUserNamespaces& /*step*/) {
  // The value belongs to the user namespace of the writer (user_namespaces(7), Linux 4.9).
  SBX_ASSIGN(const UniqueFd file,
             open_target("/proc/sys/user/max_user_namespaces", O_WRONLY | O_NOFOLLOW));
  return sys::write_all(file.get(), "0");
}

Status MountExecutor::run(const Hostname& step) {
  if (::sethostname(step.name.data(), step.name.size()) != 0) {
    return sys_error(text::cat("sethostname ", step.name));
  }
  return {};
}

Status MountExecutor::run(const Loopback& /*step*/) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return sys_error("socket for the loopback interface");
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", sizeof "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return sys_error("bring up lo");
  return {};
}

Status MountExecutor::run(const EnterRoot& step) {
  if (!step.is_writable) {
    SBX_TRY(set_attributes(root_.get(), MOUNT_ATTR_RDONLY, 0, "the new root"));
  }
  if (!step.work_dir.empty()) {
    SBX_ASSIGN(work_dir_, without_mounts(step.work_dir));
  }
  SBX_TRY(unstage());
  scratch_.reset();
  if (::fchdir(root_.get()) != 0) return sys_error("enter the new root");
  // pivot_root(".", ".") stacks the old root over the new one (pivot_root(2), NOTES).
  SBX_TRY(sys::pivot_root(".", "."));
  SBX_TRY(sys::umount2(".", kDetach));
  if (::chdir("/") != 0) return sys_error("chdir to the new root");
  return {};
}

}  // namespace sbx::confine
