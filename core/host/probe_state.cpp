// State probes: where sbx keeps what it must remember, and how much room there is.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/host/probes.h"

namespace sbx::host {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::uint64_t kLeastFree = 64 * kMiB;
constexpr std::uint64_t kGoodFree = 1024 * kMiB;
constexpr std::uint64_t kLeastInodes = 1000;

struct FileSystem {
  std::int64_t type;
  std::string_view name;
};
// statfs(2); those that linux/magic.h lacks by number.
constexpr std::array<FileSystem, 7> kNetworked{{{NFS_SUPER_MAGIC, "nfs"},
                                                {SMB_SUPER_MAGIC, "smb"},
                                                {0xFF534D42, "cifs"},
                                                {0xFE534D42, "smb2"},
                                                {CEPH_SUPER_MAGIC, "ceph"},
                                                {AFS_SUPER_MAGIC, "afs"},
                                                {0x01021997, "9p"}}};

/// Writes a file and gives it up unseen: O_TMPFILE has no name that could stay.
Status write_somewhere_in(const Dir& dir) {
  const auto file = sys::openat(dir.fd.get(), ".", O_TMPFILE | O_WRONLY, 0600);
  if (!file.ok()) {
    if (file.error().sys_errno() == EOPNOTSUPP) return {};  // open_state_dir asked for the right
    return file.error();
  }
  return sys::write_all(file.value().get(), "x");
}

}  // namespace

Finding judge_state_place(const StatePlace& place) {
  const std::string tried =
      text::cat("opened ", place.path, ", checked owner and mode, wrote a file");
  const auto* const network =
      std::find_if(kNetworked.begin(), kNetworked.end(), [&](const FileSystem& fs) {
        return fs.type == place.type;
      });
  if (network != kNetworked.end()) {
    return weak(tried,
                text::cat("it is on a network file system (",
                          network->name,
                          "), whose locks and renames are not sure"),
                "set SBX_STATE_DIR to a directory on a local disk");
  }
  if (place.is_noexec) {
    return weak(
        tried,
        "its file system is mounted noexec: what sessions keep there could not be executed",
        "set SBX_STATE_DIR to a directory on another file system, or mount -o remount,exec");
  }
  return works(tried);
}

Finding judge_space(const Space& space) {
  const std::string tried = text::cat(
      space.path,
      ": ",
      space.free_bytes / kMiB,
      " MiB free",
      space.inodes == 0 ? std::string() : text::cat(", ", space.free_inodes, " inodes free"));
  const std::string fix = text::cat(
      "remove old records and leftovers (sbx gc), or see what fills it: du -x ", space.path);
  if (space.free_bytes < kLeastFree) return missing(tried, "the file system is full", fix);
  if (space.inodes != 0 && space.free_inodes < kLeastInodes) {
    return missing(tried, "the file system has no inodes left for files", fix);
  }
  if (space.free_bytes < kGoodFree) return weak(tried, "the file system is nearly full", fix);
  return works(tried);
}

Finding check_state_dir(const DoctorContext& context) {
  const std::string tried = "opened the state directory, checked owner and mode, wrote a file";
  const auto dir = open_state_dir(context.paths);
  if (!dir.ok()) return missing(tried, dir.error());
  struct statfs info {};
  if (::fstatfs(dir.value().fd.get(), &info) != 0) {
    return missing(tried, sys_error(text::cat("statfs ", dir.value().path), errno));
  }
  if (const Status written = write_somewhere_in(dir.value()); !written.ok()) {
    return missing(tried,
                   text::cat("in ", dir.value().path, ": ", written.error().message()),
                   "make room on that file system, or set SBX_STATE_DIR to a place on another one");
  }
  return judge_state_place({.path = dir.value().path,
                            .type = info.f_type,
                            .is_noexec = (info.f_flags & ST_NOEXEC) != 0});
}

Finding check_disk(const DoctorContext& context) {
  const auto dir = open_state_dir(context.paths);
  if (!dir.ok()) return missing("looked for the state directory", dir.error());
  struct statvfs info {};
  if (::fstatvfs(dir.value().fd.get(), &info) != 0) {
    return missing("looked at the free space",
                   sys_error(text::cat("statvfs ", dir.value().path), errno));
  }
  return judge_space({.path = dir.value().path,
                      .free_bytes = std::uint64_t{info.f_bavail} * info.f_frsize,
                      .inodes = info.f_files,
                      .free_inodes = info.f_favail});
}

}  // namespace sbx::host
