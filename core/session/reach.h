// Reach: a connection to a session's supervisor that is known to answer, whatever state the session
// is in when it is asked for.
//
// A session may be between two states: its starter was killed, it is being stopped, its PID 1 has
// just died. reach() waits until that is over and looks again, so that a command never meets a
// socket that is not there yet, or one that nobody will read any more. The supervisor is greeted
// before anything is asked of it: what was not asked can be asked again.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/profile/profile.h"
#include "core/session/client.h"
#include "core/session/lifecycle.h"
#include "core/session/store.h"

namespace sbx::session {

struct Reached {
  Record record;
  Client client;
};

/// The session is alive, a stopped one is started or refused. Blocks for a start, at most for a
/// minute for others' work on the session.
Result<Reached> reach(const Store& store,
                      const std::string& session,
                      WhenStopped when_stopped,
                      const profile::EnvLookup& env,
                      const Warn& warn);

}  // namespace sbx::session
