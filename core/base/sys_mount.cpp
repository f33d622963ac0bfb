// Sys: wrappers for the mount calls. Apart from the others because glibc 2.36's <sys/mount.h>
// cannot stand next to <linux/mount.h>.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::sys {
namespace {

template <typename... Args>
Status status(long value, const Args&... args) {
  if (value != -1) return {};
  const int err = errno;
  return sys_error(text::cat(args...), err);
}

template <typename... Args>
Result<UniqueFd> owned(long fd, const Args&... args) {
  SBX_TRY(status(fd, args...));
  return UniqueFd(static_cast<int>(fd));
}

/// What the kernel wrote about the last failure of `fsfd` (fsopen(2)), as " (line; line)"; empty
/// when it has no words.
std::string kernel_words(int fsfd) {
  constexpr int kLines = 8;
  std::string words;
  std::array<char, 512> line{};
  for (int i = 0; i < kLines; ++i) {
    const ssize_t size = ::read(fsfd, line.data(), line.size());  // ENODATA: no more
    if (size <= 0) break;
    std::string_view text = text::trim({line.data(), static_cast<std::size_t>(size)});
    if (text.size() > 2 && text[1] == ' ') text.remove_prefix(2);  // "e " error, "w " warning
    words += words.empty() ? " (" : "; ";
    words += text;
  }
  if (!words.empty()) words += ')';
  return words;
}

/// A failed fsconfig or fsmount: errno's text and then the kernel's own words.
Error with_words(int fsfd, std::string_view what) {
  const int err = errno;
  return sys_error(text::cat(what, kernel_words(fsfd)), err);
}

}  // namespace

Result<UniqueFd> open_tree(int dirfd, Path path, unsigned flags) {
  return owned(::open_tree(dirfd, path.c_str(), flags | OPEN_TREE_CLOEXEC), "open mount ", path);
}

Status move_mount(int from_dirfd, Path from, int to_dirfd, Path to, unsigned flags) {
  const int value = ::move_mount(from_dirfd, from.c_str(), to_dirfd, to.c_str(), flags);
  return status(value, "move mount ", from, " to ", to);
}

Status mount_setattr(int dirfd, Path path, unsigned flags, const mount_attr& attr) {
  // glibc's prototype lacks the const that the kernel promises (mount_setattr(2)).
  const long value = ::syscall(SYS_mount_setattr, dirfd, path.c_str(), flags, &attr, sizeof attr);
  return status(value, "set the attributes of mount ", path);
}

Result<UniqueFd> fsopen(const std::string& type) {
  return owned(::fsopen(type.c_str(), FSOPEN_CLOEXEC), "open file system type ", type);
}

Status fsconfig_set_string(int fsfd, const std::string& key, const std::string& value) {
  const int set = ::fsconfig(fsfd, FSCONFIG_SET_STRING, key.c_str(), value.c_str(), 0);
  if (set == -1) return with_words(fsfd, text::cat("set mount option ", key, "=", value));
  return {};
}

Status fsconfig_set_flag(int fsfd, const std::string& key) {
  const int set = ::fsconfig(fsfd, FSCONFIG_SET_FLAG, key.c_str(), nullptr, 0);
  if (set == -1) return with_words(fsfd, text::cat("set mount option ", key));
  return {};
}

Status fsconfig_create(int fsfd) {
  const int made = ::fsconfig(fsfd, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0);
  if (made == -1) return with_words(fsfd, "create the file system");
  return {};
}

Result<UniqueFd> fsmount(int fsfd, unsigned attr_flags) {
  const int fd = ::fsmount(fsfd, FSMOUNT_CLOEXEC, attr_flags);
  if (fd == -1) return with_words(fsfd, "make a mount of the file system");
  return UniqueFd(fd);
}

Status mount(Path source,
             Path target,
             const std::string& type,
             unsigned long flags,
             const std::string& data) {
  const int value = ::mount(
      source.c_str(), target.c_str(), type.c_str(), flags, data.empty() ? nullptr : data.c_str());
  return status(value, "mount ", type, " ", source, " on ", target);
}

Status umount2(Path path, int flags) {
  return status(::umount2(path.c_str(), flags), "unmount ", path);
}

Status pivot_root(Path new_root, Path put_old) {
  const long value = ::syscall(SYS_pivot_root, new_root.c_str(), put_old.c_str());
  return status(value, "make ", new_root, " the root directory");
}

}  // namespace sbx::sys
