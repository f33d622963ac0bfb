// pty: a terminal of a given size whose keyboard and screen the test holds.
#include "tests/support/pty.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

#include "tests/support/process.h"
#include "tests/support/skip.h"

namespace sbx::test {
namespace {

winsize size_of(int rows, int cols) {
  winsize ws{};
  ws.ws_row = static_cast<unsigned short>(rows);
  ws.ws_col = static_cast<unsigned short>(cols);
  return ws;
}

}  // namespace

Pty::Pty(int rows, int cols) {
  const winsize ws = size_of(rows, cols);
  if (::openpty(&master_, &slave_, nullptr, nullptr, &ws) != 0) {
    throw std::runtime_error("openpty");
  }
  ::fcntl(master_, F_SETFD, FD_CLOEXEC);
  ::fcntl(slave_, F_SETFD, FD_CLOEXEC);
  ::fchmod(slave_, 0666);  // the unprivileged user may reopen it, as after a login
}

Pty::~Pty() {
  ::close(master_);
  ::close(slave_);
}

void Pty::resize(int rows, int cols) const {
  const winsize ws = size_of(rows, cols);
  ::ioctl(master_, TIOCSWINSZ, &ws);
}

void Pty::type(std::string_view keys) const {
  while (!keys.empty()) {
    const ssize_t n = ::write(master_, keys.data(), keys.size());
    if (n <= 0) {
      return;
    }
    keys.remove_prefix(static_cast<size_t>(n));
  }
}

void Pty::watch(double seconds) {
  const double end = now() + seconds;
  do {
    pollfd fd{master_, POLLIN, 0};
    if (::poll(&fd, 1, 20) > 0) {
      std::array<char, 4096> buffer{};
      const ssize_t n = ::read(master_, buffer.data(), buffer.size());
      if (n > 0) {
        screen_.append(buffer.data(), static_cast<size_t>(n));
      }
    }
  } while (now() < end);
}

bool Pty::wait_for(std::string_view text, double seconds) {
  const double end = now() + seconds * slowness();
  while (screen_.find(text) == std::string::npos) {
    if (now() > end) {
      return false;
    }
    watch(0);
  }
  return true;
}

termios Pty::attributes() const {
  termios t{};
  ::tcgetattr(slave_, &t);
  return t;
}

bool same_mode(const termios& a, const termios& b) {
  return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag &&
         a.c_lflag == b.c_lflag;
}

}  // namespace sbx::test
