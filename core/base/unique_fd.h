// UniqueFd: owns one file descriptor and closes it exactly once.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace sbx {

/// Move-only owner. -1 is the only "none"; descriptor 0 is a descriptor like any other.
class UniqueFd {
 public:
  UniqueFd() = default;
  /// Takes ownership of `fd` (or of nothing, when it is -1).
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { reset(); }

  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }

  /// The descriptor, still owned here; -1 when there is none.
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

  /// Gives up ownership.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  /// Closes what is held and takes ownership of `fd`. errno is kept, so that an error path may
  /// close first and report afterwards. close() is never retried: on Linux the descriptor is gone
  /// even when it says EINTR (close(2)).
  void reset(int fd = -1) noexcept {
    const int old = std::exchange(fd_, fd);
    if (old < 0) return;
    const int saved = errno;
    ::close(old);
    errno = saved;
  }

 private:
  int fd_ = -1;
};

}  // namespace sbx
