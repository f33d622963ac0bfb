// Disk image: see disk_image.h.
#include "core/confine/disk_image.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/base/process.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::confine {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kInodeSize = 256;
constexpr std::uint64_t kSlack = 4U << 20U;     // superblock copies, group descriptors
constexpr std::uint64_t kMostSize = 1UL << 43;  // 8 TiB; ext4 has 16 TiB with 4 KiB blocks
constexpr std::uint64_t kReserved = 16;         // inodes of ext4 itself, and of what takes surplus
constexpr int kLoopTries = 64;
constexpr const char* kControl = "/dev/loop-control";
constexpr const char* kSurplus = "lost+found/surplus";
constexpr auto kMakers = std::to_array<const char*>(
    {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4", "/usr/bin/mkfs.ext4", "/usr/local/sbin/mkfs.ext4"});

const char* find_maker() {
  for (const char* path : kMakers) {
    if (::access(path, X_OK) == 0) return path;
  }
  return nullptr;
}

/// Bytes of an image whose free space is at least what is asked for.
std::uint64_t image_size(const DiskImageRequest& request) {
  // Bitmaps take 1/16384 each, group descriptors less; 1/64 covers extents of many files, too.
  const std::uint64_t bytes =
      request.size.v + request.size.v / 64 + request.inodes * kInodeSize * 2 + kSlack;
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

Result<UniqueFd> unnamed_file(const std::string& dir, std::uint64_t size) {
  SBX_ASSIGN(UniqueFd file, sys::open(dir, O_TMPFILE | O_RDWR, 0600));
  struct statvfs info {};
  if (::fstatvfs(file.get(), &info) != 0) return sys_error(text::cat("statvfs ", dir));
  const std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
  if (free < size) {
    constexpr std::uint64_t kMiB = 1U << 20U;
    return sys_error(text::cat("keep a disk of ",
                               to_string(Bytes{size / kMiB * kMiB}),
                               " in ",
                               dir,
                               ", where ",
                               to_string(Bytes{free / kMiB * kMiB}),
                               " are free"),
                     ENOSPC)
        .with_hint("lower --disk, make room, or set SBX_STATE_DIR to a larger disk");
  }
  SBX_TRY(sys::ftruncate(file.get(), Bytes{size}));
  return file;
}

Status format(const UniqueFd& file, std::uint64_t inodes) {
  const char* const maker = find_maker();
  if (maker == nullptr) {
    return Error(Errc::kUnsupported, "mkfs.ext4 is missing").with_hint("apt-get install e2fsprogs");
  }
  SpawnOptions options;
  options.argv = {maker,
                  "-q",
                  "-F",
                  "-b",
                  std::to_string(kBlock),
                  "-I",
                  std::to_string(kInodeSize),
                  "-m",
                  "0",
                  "-N",
                  std::to_string(inodes),
                  "-O",
                  "^has_journal,^resize_inode",
                  "-E",
                  "lazy_itable_init=1,nodiscard",
                  text::cat("/proc/self/fd/", file.get())};
  options.env = std::vector<std::string>{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  options.pass_fds = {file.get()};
  SBX_ASSIGN(ChildProcess child, spawn(options));
  SBX_ASSIGN(const int status, child.wait());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Error(Errc::kSystem, text::cat(maker, " failed with wait status ", status));
}

struct LoopDevice {
  std::string path;
  UniqueFd fd;  ///< the last one to close it frees the device
};

Result<LoopDevice> attach_loop(const UniqueFd& file) {
  SBX_ASSIGN(const UniqueFd control, sys::open(kControl, O_RDWR));
  for (int i = 0; i < kLoopTries; ++i) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return sys_error("find a free loop device");
    LoopDevice device{text::cat("/dev/loop", number), {}};
    SBX_ASSIGN(device.fd, sys::open(device.path, O_RDWR));
    loop_config config{};
    config.fd = static_cast<__u32>(file.get());
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    if (::ioctl(device.fd.get(), LOOP_CONFIGURE, &config) == 0) return device;
    // Somebody else was faster.
    if (errno != EBUSY) return sys_error(text::cat("configure ", device.path));
  }
  return sys_error("find a free loop device", EBUSY);
}

Result<UniqueFd> mount_ext4(const LoopDevice& device) {
  SBX_ASSIGN(const UniqueFd context, sys::fsopen("ext4"));
  SBX_TRY(sys::fsconfig_set_string(context.get(), "source", device.path));
  // The file is fresh: what is not initialised reads as zeros, and nobody outlives a crash of the
  // host.
  SBX_TRY(sys::fsconfig_set_flag(context.get(), "noinit_itable"));
  SBX_TRY(sys::fsconfig_set_flag(context.get(), "nobarrier"));
  SBX_TRY(sys::fsconfig_create(context.get()));
  return sys::fsmount(context.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

Result<struct statvfs> state_of(const UniqueFd& mount) {
  struct statvfs info {};
  if (::fstatvfs(mount.get(), &info) != 0) return sys_error("statvfs of a disk image");
  return info;
}

/// Takes what is free beyond the limits. Inodes first: their names take blocks.
Status take_surplus(const UniqueFd& mount, const DiskImageRequest& request) {
  SBX_ASSIGN(const UniqueFd file,
             sys::openat(mount.get(), kSurplus, O_CREAT | O_EXCL | O_WRONLY, 0600));
  SBX_ASSIGN(struct statvfs now, state_of(mount));
  if (now.f_ffree < request.inodes) {
    return Error(Errc::kInternal, text::cat("a disk image has only ", now.f_ffree, " inodes"));
  }
  for (std::uint64_t i = now.f_ffree; i > request.inodes; --i) {
    const std::string name = text::cat("lost+found/", i);
    if (::mknodat(mount.get(), name.c_str(), S_IFREG | 0600, 0) != 0) {
      return sys_error("take a surplus inode of a disk image");
    }
  }
  SBX_ASSIGN(now, state_of(mount));
  const std::uint64_t free = std::uint64_t{now.f_bavail} * now.f_frsize;
  if (free < request.size.v) {
    return Error(Errc::kInternal, text::cat("a disk image has only ", free, " bytes"));
  }
  const std::uint64_t surplus = (free - request.size.v) / kBlock * kBlock;
  if (surplus != 0 && ::fallocate(file.get(), 0, 0, static_cast<off_t>(surplus)) != 0) {
    return sys_error("take the surplus of a disk image");
  }
  return {};
}

}  // namespace

DiskImageAbility probe_disk_images() {
  if (::geteuid() != 0) {
    return {false, "only root can mount an image", "run sbx as root"};
  }
  if (find_maker() == nullptr) {
    return {false, "mkfs.ext4 is missing", "apt-get install e2fsprogs"};
  }
  if (::access(kControl, R_OK | W_OK) != 0) {
    return {false, text::cat("there is no ", kControl), "modprobe loop"};
  }
  return {true, {}, {}};
}

Result<UniqueFd> make_disk_image(const DiskImageRequest& request) {
  if (request.size.v > kMostSize || request.inodes > kMostSize / kBlock) {
    return Error(Errc::kUnsupported, text::cat("a disk of ", to_string(request.size)))
        .with_hint(text::cat("at most ", to_string(Bytes{kMostSize})));
  }
  SBX_ASSIGN(const UniqueFd file, unnamed_file(request.dir, image_size(request)));
  SBX_TRY(format(file, request.inodes + kReserved));
  SBX_ASSIGN(const LoopDevice device, attach_loop(file));
  SBX_ASSIGN(UniqueFd mount, mount_ext4(device));
  SBX_TRY(take_surplus(mount, request));
  SBX_TRY(sys::fchownat(mount.get(), "", request.owner, request.owner, AT_EMPTY_PATH));
  return mount;
}

}  // namespace sbx::confine
