// Pty: a fresh pseudo terminal from the sandbox's own devpts.
#pragma once

#include <cstdint>

#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::agent {

struct Pty {
  UniqueFd master;
  UniqueFd slave;
};

/// Opens a pair of that size, owned by `uid`. TIOCGPTPEER (Linux 4.13) avoids any path lookup.
Result<Pty> open_pty(uint16_t rows, uint16_t cols, uint32_t uid, uint32_t gid);

/// New size; the kernel sends SIGWINCH to the foreground group.
Status resize_pty(int master, uint16_t rows, uint16_t cols);

}  // namespace sbx::agent
