// Backoff: short sleeps while the kernel finishes something that it does not tell us about.
#pragma once

#include <algorithm>
#include <ctime>

namespace sbx::confine {

/// Waits 0.1 ms at first, ever longer up to 10 ms. Blocks.
class Backoff {
 public:
  void wait() {
    const timespec pause{.tv_sec = 0, .tv_nsec = ns_};
    ::nanosleep(&pause, nullptr);
    ns_ = std::min(ns_ * 2, 10'000'000L);
  }

 private:
  long ns_ = 100'000;
};

}  // namespace sbx::confine
