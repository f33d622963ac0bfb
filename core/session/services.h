// Services: the programs that a session runs by itself (profile key `services`).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/loop.h"
#include "core/base/units.h"
#include "core/profile/profile.h"
#include "core/session/exec_record.h"

namespace sbx::session {

class Daemon;

/// How long to wait before a service is started again: 1 s, doubled with each start that did not
/// last 10 s, at most one minute. Pure.
Millis restart_pause(std::uint32_t quick_ends);

/// Whether a service that ended so is started again. Pure.
bool is_to_restart(profile::Restart rule, const ExecRecord& record);

class Services {
 public:
  explicit Services(Daemon& daemon) : daemon_(daemon) {}

  /// Starts all of the profile's. One that cannot be started is noted, and no error.
  void start_all();
  /// A program of the session has ended; restarts it when it is a service that wants so.
  void ended(const ExecRecord& record);
  /// No service is started any more.
  void stop();

 private:
  struct Running {
    std::uint32_t quick_ends = 0;
    Watch restart;
  };
  const profile::Service* find(const std::string& name) const;
  void start(const profile::Service& service);

  Daemon& daemon_;
  std::map<std::string, Running> running_;
  bool is_stopping_ = false;
};

}  // namespace sbx::session
