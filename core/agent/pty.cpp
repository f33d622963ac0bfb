// Pty: see pty.h.
#include "core/agent/pty.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include "core/base/sys.h"

namespace sbx::agent {

Result<Pty> open_pty(uint16_t rows, uint16_t cols, uint32_t uid, uint32_t gid) {
  Pty pty;
  SBX_ASSIGN(pty.master, sys::open("/dev/pts/ptmx", O_RDWR | O_NOCTTY));
  int unlock = 0;
  if (::ioctl(pty.master.get(), TIOCSPTLCK, &unlock) != 0) return sys_error("unlock the terminal");
  SBX_TRY(resize_pty(pty.master.get(), rows, cols));
  pty.slave.reset(::ioctl(pty.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!pty.slave.valid()) return sys_error("open the terminal's inner end");
  SBX_TRY(sys::fchown(pty.slave.get(), uid, gid));
  return pty;
}

Status resize_pty(int master, uint16_t rows, uint16_t cols) {
  winsize size{};
  size.ws_row = rows;
  size.ws_col = cols;
  if (::ioctl(master, TIOCSWINSZ, &size) != 0) return sys_error("set the terminal's size");
  return {};
}

}  // namespace sbx::agent
