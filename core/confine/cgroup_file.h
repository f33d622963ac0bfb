// Cgroup file: reading and writing the small files of one group, below its directory descriptor.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace sbx::confine::cgroup_file {

/// Writes `value` in one write(2), as the kernel wants it. `group` is only for the message.
Status write(int dir, const std::string& group, const char* file, std::string_view value);

/// The content without white space at its ends.
Result<std::string> read(int dir, const std::string& group, const char* file);

/// Whether the file is there.
bool exists(int dir, const char* file);

/// Value of `key` in a file of "key value" lines. kProtocol when it is not there.
Result<std::uint64_t> counter(int dir,
                              const std::string& group,
                              const char* file,
                              std::string_view key);

}  // namespace sbx::confine::cgroup_file
