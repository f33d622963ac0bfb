// Lifecycle: what commands do to a session as a whole: make, start, stop, remove.
//
// Each takes the session's lock for as long as it changes something, looks first at what is really
// there, and can be killed at any moment: the next command finds either the old state or the new.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/profile/profile.h"
#include "core/run/options.h"
#include "core/session/store.h"

namespace sbx::session {

/// Told each sentence that the user should read; may be empty.
using Warn = std::function<void(std::string_view)>;

/// What a session of an image gets besides what the image says.
struct RootChange {
  bool is_root = false;           ///< programs run as 0:0, whoever the image's user is
  std::vector<std::string> dirs;  ///< directories that have to be there, as the image's volumes
};

struct NewSession {
  std::string name;  ///< empty: one is made up
  profile::LoadRequest profile;
  std::vector<std::pair<std::string, std::string>> labels;
  std::vector<std::string> packages;  ///< -P SPEC, as given
  run::PackagesHook add_packages;     ///< empty: packages are refused
  RootChange root = {};
};

/// Makes a session and starts it; its record. When the start fails nothing is left of it. kExists
/// when the name is taken. Blocks until the sandbox is set up.
Result<Record> start_new(const Store& store, const NewSession& wanted, const Warn& warn);

/// Starts a stopped or crashed session. kExists when it runs already.
Status start_again(const Store& store,
                   const std::string& session,
                   const profile::EnvLookup& env,
                   const Warn& warn);

enum class WhenStopped : bool { kStart, kRefuse };
/// The record of a session that runs or is paused; one that is stopped is started, or refused with
/// the fix.
Result<Record> ensure_alive(const Store& store,
                            const std::string& session,
                            WhenStopped when_stopped,
                            const profile::EnvLookup& env,
                            const Warn& warn);

/// Ends whoever is alive in the session: programs get SIGTERM and `grace`. True: it was alive.
/// Blocks; a supervisor that does not answer is killed.
Result<bool> stop(const Store& store, const std::string& session, Millis grace);
/// The same by who holds the lock.
Result<bool> stop_locked(const Store& store, const Lease& lease, Millis grace);

enum class WhenAlive : bool { kStop, kRefuse };
/// Removes a session with everything that only it uses. Needs no free space.
Status remove(const Store& store, const std::string& session, WhenAlive when_alive);

/// Names of stopped sessions that nobody used for their session.ttl.
std::vector<std::string> expired(const Store& store);
/// Removes stopped sessions that nobody used for their session.ttl. (A running one does it itself.)
void remove_expired(const Store& store);

/// Removes the layers that no session uses any more; does nothing while somebody makes one.
void sweep_layers(const Store& store);

/// Ends what a killed supervisor left alive in `dir` (sessions/NAME). Nobody may hold its life.
void clear_crash(int dir);

}  // namespace sbx::session
