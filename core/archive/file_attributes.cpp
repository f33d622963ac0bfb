// File attributes: see file_attributes.h.
#include "core/archive/file_attributes.h"

#include <fcntl.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "core/base/text.h"

namespace sbx::archive {

namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::size_t kMaxList = std::size_t{64} << 10U;   // XATTR_LIST_MAX
constexpr std::size_t kMaxValue = std::size_t{64} << 10U;  // XATTR_SIZE_MAX
constexpr std::size_t kMaxAll = kMaxTarHeader / 2;

void note_loss(std::string_view name, std::string_view path, TransferReport& report) {
  report.note(is_acl(name) ? NoteKind::kAclLost : NoteKind::kXattrLost, path);
}

}  // namespace

bool is_acl(std::string_view name) {
  return name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

bool is_kept_xattr(std::string_view name) {
  constexpr std::size_t kMaxName = 255;
  if (name.size() > kMaxName || name.find('\0') != std::string_view::npos) return false;
  if (is_acl(name)) return true;
  return name.starts_with("user.") && name.size() > 5 && !name.starts_with("user.overlay.");
}

std::vector<TarXattr> read_xattrs(int fd, std::string_view path, TransferReport& report) {
  std::vector<TarXattr> found;
  const ssize_t needed = ::flistxattr(fd, nullptr, 0);
  if (needed <= 0) return found;
  std::string names(kMaxList, '\0');
  const ssize_t size = ::flistxattr(fd, names.data(), names.size());
  if (size <= 0) return found;
  names.resize(static_cast<std::size_t>(size));
  std::size_t all = 0;
  std::string value(kMaxValue, '\0');
  for (const std::string_view part : text::split(names, '\0')) {
    const std::string name(part);
    if (name == "security.capability") report.note(NoteKind::kCapabilities, path);
    if (!is_kept_xattr(name)) continue;
    const ssize_t got = ::fgetxattr(fd, name.c_str(), value.data(), value.size());
    const bool is_lost = got < 0 || name.find('=') != std::string::npos ||
                         all + static_cast<std::size_t>(got) + name.size() > kMaxAll;
    if (is_lost) {
      if (got >= 0 || errno != ENODATA) note_loss(name, path, report);
      continue;
    }
    all += static_cast<std::size_t>(got) + name.size() + 64;
    found.push_back({name, value.substr(0, static_cast<std::size_t>(got))});
  }
  std::sort(found.begin(), found.end(), [](const TarXattr& a, const TarXattr& b) {
    return a.name < b.name;
  });
  return found;
}

void write_xattrs(int fd,
                  const std::vector<TarXattr>& xattrs,
                  std::string_view path,
                  TransferReport& report) {
  for (const TarXattr& xattr : xattrs) {
    if (!is_kept_xattr(xattr.name)) continue;
    const int set = ::fsetxattr(fd, xattr.name.c_str(), xattr.value.data(), xattr.value.size(), 0);
    if (set != 0) note_loss(xattr.name, path, report);
  }
}

mode_t kept_mode(std::uint32_t mode, bool is_directory) {
  return mode & (is_directory ? 01777U : 0777U);
}

std::int64_t mtime_ns(const struct stat& info) {
  // A tmpfs keeps any 64-bit number of seconds.
  constexpr std::int64_t kMaxSeconds = INT64_MAX / kNsPerSecond - 1;
  const std::int64_t seconds =
      std::clamp(std::int64_t{info.st_mtim.tv_sec}, -kMaxSeconds, kMaxSeconds);
  return seconds * kNsPerSecond + info.st_mtim.tv_nsec;
}

timespec to_timespec(std::int64_t ns) {
  std::int64_t seconds = ns / kNsPerSecond;
  std::int64_t rest = ns % kNsPerSecond;
  if (rest < 0) {
    rest += kNsPerSecond;
    seconds -= 1;
  }
  return {.tv_sec = seconds, .tv_nsec = rest};
}

void set_mtime(int fd, std::int64_t ns) {
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, to_timespec(ns)};
  static_cast<void>(::futimens(fd, times));
}

}  // namespace sbx::archive
