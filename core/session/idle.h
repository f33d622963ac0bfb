// Idle: what a session does by itself when nobody uses it (profile keys session.idle_pause and
// session.ttl).
//
// In use means: a command is connected, or a program that is no service runs. Time counts from the
// end of the last use, on CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/base/loop.h"
#include "core/base/units.h"

namespace sbx::session {

/// Calls `due` once nothing was in use for `limit`, and again after each further `limit`.
class IdleTimer {
 public:
  IdleTimer(Loop& loop, Millis limit, std::function<bool()> is_in_use, std::function<void()> due);

  /// It is in use, or was just now.
  void touch();

 private:
  void arm(Millis left);
  void look();

  Loop& loop_;
  Millis limit_;
  std::function<bool()> is_in_use_;
  std::function<void()> due_;
  std::int64_t used_ms_ = 0;
  Watch timer_;
};

}  // namespace sbx::session
