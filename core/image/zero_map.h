// Zero map: where a file has content, decided by its bytes and not by the file system's holes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/archive/archive.h"
#include "core/base/result.h"

namespace sbx::image {

/// Files shorter than this are taken as a whole.
inline constexpr std::uint64_t kSparseFrom = std::uint64_t{16} << 20U;
/// Only aligned stretches of so many zeros are left out; the file's last one may be shorter.
inline constexpr std::uint64_t kZeroStretch = std::uint64_t{64} << 10U;

/// What of the first `size` bytes of `fd` is not zeros, sorted and apart; {0, size} for a short
/// file. Reads a long file once (holes are skipped). Blocks.
Result<std::vector<archive::Extent>> nonzero_extents(int fd, std::uint64_t size);

}  // namespace sbx::image
