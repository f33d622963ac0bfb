// Data stream: one tree as a tar stream over a port that stays open afterwards.
//
// Pieces of a 4-byte length (little-endian, at most kLongestPiece) and so many bytes; a length of 0
// ends it, and one byte behind it says whether the sender had everything (0) or not (1). Whoever
// packs or unpacks is a process of its own: what comes from a guest is hostile.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "core/base/result.h"

namespace sbx::vm {

inline constexpr std::size_t kLongestPiece = std::size_t{64} << 10U;

/// Asked some times a second; true ends it with EINTR. May be empty.
using ShouldStop = std::function<bool()>;

/// Sends what `work` writes to its descriptor, in a forked process, to `port`. Blocks.
Status send_work(int port, const std::function<Status(int out)>& work, const ShouldStop& stop = {});
/// Gives what comes from `port` to `work`, in a forked process. After an error the port is of no
/// more use. Blocks.
Status receive_work(int port,
                    const std::function<Status(int in)>& work,
                    const ShouldStop& stop = {});

}  // namespace sbx::vm
