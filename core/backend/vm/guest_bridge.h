// Guest bridge: the guest's end of what carries a jail's messages and streams over the agent's
// port.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/backend/backend.h"
#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"

namespace sbx::vm {

/// See Bridge for what the calls mean.
class GuestBridge {
 public:
  GuestBridge() = default;
  GuestBridge(const GuestBridge&) = delete;
  GuestBridge& operator=(const GuestBridge&) = delete;
  virtual ~GuestBridge() = default;
  virtual void quiesce(std::function<void(std::uint64_t written)> then) = 0;
  virtual void drain_wire(std::uint64_t total, std::function<void(Status)> then) = 0;
  virtual void resume(std::uint32_t epoch) = 0;
};

/// `sandbox` outlives it, and is killed when nobody listens to it any more.
std::unique_ptr<GuestBridge> start_guest_bridge(Loop& loop,
                                                UniqueFd port,
                                                backend::Sandbox& sandbox);

}  // namespace sbx::vm
