// Events: the one typed stream of things that happened, from which logs, progress and audit come.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sbx::supervise {

enum class EventKind { kSandboxReady, kExecStarted, kExecExited, kExecFailed, kSandboxEnded };

struct Event {
  EventKind kind = EventKind::kSandboxReady;
  int64_t realtime_ns = 0;  ///< CLOCK_REALTIME
  uint32_t exec_id = 0;     ///< 0 when it concerns the sandbox as a whole
  int value = 0;            ///< wait status, errno or pid, by kind
  std::string text;         ///< escaped by whoever prints it
};

/// Receives every event, in order, on the supervisor's loop. Must not block.
using EventSink = std::function<void(const Event&)>;

}  // namespace sbx::supervise
