// Content: the digest of what a copy step brings: names, kinds, permission bits, texts of links and
// bytes of files. Times and owners do not count.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"

namespace sbx::build {

/// Hex digits of SHA-256 over `path` below the directory `base`, which no link leads out of
/// (kDenied). kLimit beyond a million files. Sockets, FIFOs and devices count by name only: they
/// are not copied. Blocks.
Result<std::string> content_digest(int base, const std::string& path);

}  // namespace sbx::build
