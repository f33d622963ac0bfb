// Guest root: see guest_root.h.
#include "core/backend/vm/guest_root.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

constexpr unsigned long kPlain = MS_NOSUID | MS_NODEV;
constexpr const char* kNew = "/new";

struct First {
  const char* type;
  const char* target;
  unsigned long flags;
  const char* data;
};
constexpr std::array<First, 3> kFirst{{{"proc", "/proc", kPlain | MS_NOEXEC, ""},
                                       {"sysfs", "/sys", kPlain | MS_NOEXEC, ""},
                                       {"devtmpfs", "/dev", MS_NOSUID, "mode=755"}}};
/// In the new root, parents first.
constexpr std::array<First, 6> kAll{
    {{"proc", "/proc", kPlain | MS_NOEXEC, ""},
     {"sysfs", "/sys", kPlain | MS_NOEXEC, ""},
     {"cgroup2", "/sys/fs/cgroup", kPlain | MS_NOEXEC, ""},
     {"devtmpfs", "/dev", MS_NOSUID, "mode=755"},
     {"devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "mode=620,gid=5,ptmxmode=666"},
     {"tmpfs", "/dev/shm", kPlain, "mode=1777"}}};

struct Place {
  const char* path;
  mode_t mode;
};
constexpr std::array<Place, 13> kPlaces{{{"/proc", 0555},
                                         {"/sys", 0555},
                                         {"/dev", 0755},
                                         {"/tmp", 01777},
                                         {"/usr", 0755},
                                         {"/etc", 0755},
                                         {"/var", 0755},
                                         {"/root", 0700},
                                         {"/run", 0755},
                                         {"/run/sbx", 0700},
                                         {"/run/sbx/ids", 0700},
                                         {"/run/sbx/state", 0700},
                                         {"/run/sbx/roots", 0700}}};
constexpr std::array<std::string_view, 4> kControllers{"cpu", "memory", "pids", "io"};
constexpr std::string_view kCgroups = "/sys/fs/cgroup";

Status make_place(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return {};
  return sys_error(text::cat("make directory ", path));
}

Status write_file(const std::string& path, std::string_view content) {
  SBX_ASSIGN(const UniqueFd file, sys::open(path, O_WRONLY));
  return sys::write_all(file.get(), content);
}

/// What the jail's groups need is on in the root and in "sbx", where they are made. One at a time:
/// a kernel may lack one.
Status turn_on_controllers() {
  const std::string group = text::cat(kCgroups, "/sbx");
  SBX_TRY(make_place(group, 0755));
  for (const std::string& dir : {std::string(kCgroups), group}) {
    for (const std::string_view controller : kControllers) {
      (void)write_file(dir + "/cgroup.subtree_control", text::cat("+", controller));
    }
  }
  return {};
}

/// Paths come from the host, but one that leads elsewhere would be a bug that is hard to see.
Status check_path(const std::string& path) {
  if (path.size() > 1 && path.starts_with('/') && path.find("/../") == std::string::npos &&
      !path.ends_with("/..")) {
    return {};
  }
  return Error(Errc::kUsage, text::cat("no place for a mount: ", path));
}

Status check_device(const std::string& name) {
  if (!name.empty() && name.find('/') == std::string::npos) return {};
  return Error(Errc::kUsage, text::cat("no name of a device: ", name));
}

Status mount_share(const control::Share& share) {
  SBX_TRY(check_path(share.path));
  SBX_TRY(fs::mkdirs(share.path, 0755));
  const unsigned long read_only = MS_RDONLY;
  const unsigned long flags = kPlain | (share.is_read_only ? read_only : 0UL);
  // cache=loose: the host's tree is taken not to change. What is written elsewhere has to be seen
  // by the host at once.
  const std::string data = text::cat("trans=virtio,version=9p2000.L,msize=262144,cache=",
                                     share.is_read_only ? "loose" : "none");
  return sys::mount(share.tag, share.path, "9p", flags, data);
}

std::string parent_of(const std::string& path) {
  const std::string parent = path.substr(0, path.rfind('/'));
  return parent.empty() ? "/" : parent;
}

/// Makes the parents of `path` only where `make` fails for want of them: there are few of those.
template <typename Make>
auto with_parents(const std::string& path, Make make) -> decltype(make()) {
  auto made = make();
  if (made.ok() || made.error().code() != Errc::kNotFound) return made;
  SBX_TRY(fs::mkdirs(parent_of(path), 0755));
  return make();
}

Status make_link(const control::RootLink& link) {
  SBX_TRY(check_path(link.path));
  return with_parents(link.path,
                      [&link] { return sys::symlinkat(link.target, AT_FDCWD, link.path); });
}

Status make_file(const std::string& path, std::string_view content) {
  SBX_TRY(check_path(path));
  SBX_ASSIGN(const UniqueFd file,
             with_parents(path, [&path] { return sys::open(path, O_WRONLY | O_CREAT, 0644); }));
  return content.empty() ? Status() : sys::write_all(file.get(), content);
}

Status mount_bind(const control::RootBind& bind) {
  SBX_TRY(check_path(bind.path));
  if (bind.is_dir) {
    SBX_TRY(with_parents(bind.path, [&bind] { return make_place(bind.path, 0755); }));
  } else {
    SBX_TRY(make_file(bind.path, {}));
  }
  return sys::mount(bind.source, bind.path, "", MS_BIND, "");
}

Status mount_image(const control::ImageDisk& image, std::size_t index) {
  SBX_TRY(check_device(image.device));
  const std::string target = control::image_layer(index) + "/fs/root";
  SBX_TRY(fs::mkdirs(target, 0755));
  return sys::mount(text::cat("/dev/", image.device),
                    target,
                    image.type,
                    kPlain | MS_RDONLY,
                    image.type == "ext4" ? "noload" : "");
}

Status mount_state(const std::string& device, bool is_kept) {
  if (device.empty()) return {};
  SBX_TRY(check_device(device));
  SBX_TRY(sys::mount(text::cat("/dev/", device),
                     std::string(control::kStateDir),
                     "ext4",
                     kPlain | MS_NOATIME,
                     is_kept ? "commit=2" : "nobarrier"));
  if (is_kept) {
    // A machine ends with its supervisor, however that ends: little is to be lost then.
    SBX_TRY(write_file("/proc/sys/vm/dirty_expire_centisecs", "100"));
    SBX_TRY(write_file("/proc/sys/vm/dirty_writeback_centisecs", "100"));
  }
  if (::chmod(std::string(control::kStateDir).c_str(), 0700) != 0) {
    return sys_error("close the state directory");
  }
  return {};
}

}  // namespace

Status mount_first() {
  for (const First& first : kFirst) {
    SBX_TRY(make_place(first.target, 0755));
    const Status done = sys::mount(first.type, first.target, first.type, first.flags, first.data);
    if (!done.ok() && done.error().sys_errno() != EBUSY) return done;
  }
  // Nothing of ours may get the number of a standard descriptor.
  constexpr int kStandard = 3;
  SBX_ASSIGN(const UniqueFd console, sys::open("/dev/console", O_RDWR | O_NOCTTY));
  SBX_ASSIGN(const UniqueFd apart, sys::dup(console.get(), kStandard));
  for (int fd = 0; fd < kStandard; ++fd) {
    if (fd != console.get()) SBX_TRY(sys::dup_onto(apart.get(), fd, false));
  }
  return {};
}

Status enter_root() {
  SBX_TRY(make_place(kNew, 0755));
  SBX_TRY(sys::mount("root", kNew, "tmpfs", kPlain, "mode=755"));
  if (::chdir(kNew) != 0) return sys_error("enter the new root");
  for (const Place& place : kPlaces) {
    SBX_TRY(make_place(text::cat(kNew, place.path), place.mode));
  }
  if (::chmod(text::cat(kNew, "/tmp").c_str(), 01777) != 0) return sys_error("open /tmp");
  for (const First& each : kAll) {
    const std::string target = text::cat(kNew, each.target);
    SBX_TRY(make_place(target, 0755));
    SBX_TRY(sys::mount(each.type, target, each.type, each.flags, each.data));
  }
  for (const char* old : {"/dev", "/sys", "/proc"}) {
    SBX_TRY(sys::umount2(old, MNT_DETACH));
  }
  SBX_TRY(sys::mount(".", "/", "", MS_MOVE, ""));
  if (::chroot(".") != 0 || ::chdir("/") != 0) return sys_error("enter the new root");
  // What is mounted later comes to a jail that was begun before (GuestJail::prepare).
  SBX_TRY(sys::mount("", "/", "", MS_SHARED | MS_REC, ""));
  SBX_TRY(sys::symlinkat("/proc/self/fd", AT_FDCWD, "/dev/fd"));
  // What a sandbox may have is for its memory limit to say, not for a guess from the size of this
  // machine: a program that asks for too much and uses it is to be ended, as on a host. (Strict
  // counting, 2, would refuse what sanitizers reserve.)
  SBX_TRY(write_file("/proc/sys/vm/overcommit_memory", "1"));
  return turn_on_controllers();
}

Status GuestRoot::assemble(const control::Root& wanted) {
  if (is_assembled_) return Error(Errc::kUsage, "there is a root already");
  is_assembled_ = true;
  wanted_ = wanted;
  for (const control::RootLink& link : wanted_.links) {
    SBX_TRY(make_link(link));
  }
  for (const control::RootFile& file : wanted_.files) {
    SBX_TRY(make_file(file.path, file.content));
  }
  SBX_TRY(mount_shares());
  for (std::size_t i = 0; i < wanted_.images.size(); ++i) {
    SBX_TRY(mount_image(wanted_.images[i], i));
  }
  SBX_TRY(mount_state(wanted_.state_device, wanted_.is_state_kept));
  is_state_mounted_ = !wanted_.state_device.empty();
  return {};
}

Status GuestRoot::mount_shares() {
  if (are_shares_mounted_) return {};
  for (const control::Share& share : wanted_.shares) {
    SBX_TRY(mount_share(share));
  }
  for (const control::RootBind& bind : wanted_.binds) {
    SBX_TRY(mount_bind(bind));
  }
  are_shares_mounted_ = true;
  return {};
}

Status GuestRoot::umount_shares() {
  if (!are_shares_mounted_) return {};
  for (auto bind = wanted_.binds.rbegin(); bind != wanted_.binds.rend(); ++bind) {
    SBX_TRY(sys::umount2(bind->path, UMOUNT_NOFOLLOW));
  }
  for (auto share = wanted_.shares.rbegin(); share != wanted_.shares.rend(); ++share) {
    SBX_TRY(sys::umount2(share->path, UMOUNT_NOFOLLOW));
  }
  are_shares_mounted_ = false;
  return {};
}

Status GuestRoot::sync() {
  SBX_ASSIGN(const UniqueFd state, fs::open_dir(std::string(control::kStateDir)));
  if (::syncfs(state.get()) != 0) return sys_error("sync the state disk");
  return {};
}

Result<control::Disk> GuestRoot::disk() {
  struct statvfs info {};
  if (::statvfs(std::string(control::kStateDir).c_str(), &info) != 0) {
    return sys_error("look at the state disk");
  }
  return control::Disk{info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize, info.f_favail};
}

Status GuestRoot::close() {
  if (!is_state_mounted_) return {};
  SBX_TRY(sync());
  is_state_mounted_ = false;
  return sys::umount2(std::string(control::kStateDir), UMOUNT_NOFOLLOW);
}

}  // namespace sbx::vm
