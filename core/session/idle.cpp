// Idle: see idle.h.
#include "core/session/idle.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"

namespace sbx::session {

IdleTimer::IdleTimer(Loop& loop,
                     Millis limit,
                     std::function<bool()> is_in_use,
                     std::function<void()> due)
    : loop_(loop), limit_(limit), is_in_use_(std::move(is_in_use)), due_(std::move(due)) {
  touch();
  arm(limit_);
}

void IdleTimer::touch() {
  used_ms_ = monotonic_now().v;
}

void IdleTimer::arm(Millis left) {
  timer_ = loop_.add_timer(left, [this] { look(); });
}

void IdleTimer::look() {
  if (is_in_use_()) touch();
  const std::int64_t idle_ms = monotonic_now().v - used_ms_;
  if (idle_ms < limit_.v) return arm(Millis{std::max<std::int64_t>(1, limit_.v - idle_ms)});
  touch();
  arm(limit_);
  due_();
}

}  // namespace sbx::session
