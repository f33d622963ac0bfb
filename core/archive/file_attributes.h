// File attributes: times, permission bits and extended attributes of an open file, as a copy keeps
// them.
//
// Kept: user.* and POSIX ACLs. Never taken nor set: user.overlay.* (they would change what an
// overlay shows), trusted.*, security.*, setuid and setgid bits.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/archive/tar_entry.h"
#include "core/archive/transfer.h"
#include "core/base/result.h"

namespace sbx::archive {

/// The kept attributes of `fd`, sorted by name. What cannot be taken along is noted.
std::vector<TarXattr> read_xattrs(int fd, std::string_view path, TransferReport& report);

/// Whether a copy may set an attribute of this name.
bool is_kept_xattr(std::string_view name);
bool is_acl(std::string_view name);

/// Sets those of `xattrs` that a copy may set; notes what the file system does not take.
void write_xattrs(int fd,
                  const std::vector<TarXattr>& xattrs,
                  std::string_view path,
                  TransferReport& report);

/// Permission bits without setuid and setgid; the sticky bit only for directories.
mode_t kept_mode(std::uint32_t mode, bool is_directory);

std::int64_t mtime_ns(const struct stat& info);
timespec to_timespec(std::int64_t ns);
/// Sets the time of writing and leaves that of reading. A file system without such times is no
/// failure.
void set_mtime(int fd, std::int64_t ns);

}  // namespace sbx::archive
