// Pauser: stops and continues the payload of one sandbox, by the host's freezer or by the agent.
//
// Runs on the loop and never blocks. Requests are carried out one after the other; a stop that does
// not come about in time is undone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "core/backend/backend.h"
#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/ipc/message.h"

namespace sbx::supervise {

class Pauser {
 public:
  /// Both outlive it.
  Pauser(Loop& loop, backend::Sandbox& sandbox) : loop_(loop), sandbox_(sandbox) {}

  /// See Supervisor::freeze.
  void request(bool is_frozen, std::function<void(Status)> then);
  /// The agent's answer; false when none is awaited.
  bool take(const ipc::FrozenSet& answer);
  bool is_frozen() const { return is_frozen_; }
  /// SIGKILL was sent to somebody: sees to it that it also works in a stopped payload.
  void release_killed();
  /// The sandbox has ended: whoever waits is told so, later requests as well.
  void end();

 private:
  struct Request {
    bool is_frozen;
    std::function<void(Status)> then;
  };

  void start_next();
  void start();
  void look();
  void finish(Status result);
  void roll_back(Error error);
  void take_late(const ipc::FrozenSet& answer);
  void sweep_in(Millis time);

  Loop& loop_;
  backend::Sandbox& sandbox_;
  std::deque<Request> queue_;  // the first is being carried out when is_busy_
  bool is_busy_ = false;
  bool is_frozen_ = false;
  bool is_asking_agent_ = false;
  int late_answers_ = 0;  // of requests that were given up
  bool has_ended_ = false;
  std::int64_t deadline_ = 0;
  Millis pause_{1};
  Watch timer_;
  Watch sweep_timer_;
};

}  // namespace sbx::supervise
