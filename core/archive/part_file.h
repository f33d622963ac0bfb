// Part file: the hidden file beside its final place in which a copy puts a file together.
//
// Its name follows from the final name, size and time of the source, so that a later copy of the
// same file finds what an interrupted one left. While it is written it is locked (flock(2)); one
// that nobody holds is a leftover.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::archive {

/// Files of at least this size are kept in part when a copy is interrupted, if that was asked for.
inline constexpr std::uint64_t kMinPartSize = std::uint64_t{1} << 20U;

/// ".sbx-part-" and 32 hex digits.
std::string part_name(std::string_view name, std::uint64_t size, std::int64_t mtime_ns);
bool is_part_name(std::string_view name);

/// Makes a fresh, empty, locked one, mode 0600; what was left under the name is removed. One that
/// is in use by another copy is left alone and a random name is taken instead: `name` is changed.
Result<UniqueFd> create_part(int dirfd, std::string& name);
/// Opens a leftover for writing and locks it. kNotFound when it is not there, kExists when it is in
/// use, kUsage when it is not a plain file of the caller's with one name.
Result<UniqueFd> open_part(int dirfd, const std::string& name);
/// Removes the leftovers of a directory.
void remove_parts(int dirfd);

/// A digest of the first `size` bytes of a file that does not depend on where its holes are: blocks
/// of zeros count for nothing. 64 hex digits.
Result<std::string> content_digest(int fd, std::uint64_t size);

}  // namespace sbx::archive
