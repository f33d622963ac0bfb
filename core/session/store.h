// Store: the sessions of one state directory: names, records, locks.
//
// Theory of operation
//  1. sessions/NAME/ is one session. It comes into being by a rename of a finished directory, so a
//     name has a whole record or none, and of many who claim a name at once one wins.
//  2. A command that changes a session holds its lock (flock on sessions/NAME/lock, a Lease).
//     Readers need no lock: records are replaced as a whole.
//  3. The living supervisor holds `life` (life.h). Whether a session runs is decided by that lock
//     alone; a record that says otherwise is put right by the next command (reconcile).
//  4. Removal renames the directory to ".rm-*" first: it needs no space, and what is left of a
//     killed one is no session any more; clear_leftovers() removes it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "core/session/life.h"
#include "core/session/record.h"

namespace sbx::session {

/// The lock of one session, and its directory. Given up by the destructor.
class Lease {
 public:
  Lease(std::string name, UniqueFd dir, UniqueFd lock)
      : name_(std::move(name)), dir_(std::move(dir)), lock_(std::move(lock)) {}

  const std::string& name() const { return name_; }
  int dir() const { return dir_.get(); }
  Result<Record> read() const;
  /// Replaces the record, whole and durable.
  Status write(const Record& record) const;

 private:
  std::string name_;
  UniqueFd dir_;
  UniqueFd lock_;
};

enum class SessionState : std::uint8_t {
  kRunning,
  kPaused,
  kStarting,
  kEnding,
  kStopped,
  kCrashed
};
std::string_view name(SessionState state);

/// A session as it is now.
struct Listing {
  Record record;  ///< of an unreadable one only the name
  RunFile run;
  std::optional<Life> life;  ///< of the living supervisor
  SessionState state = SessionState::kStopped;
  std::string problem;  ///< why its record cannot be read; empty when it can

  bool is_alive() const { return life.has_value(); }
};

class Store {
 public:
  /// `state_dir`: absolute, exists. Makes sessions/ and layers/ below it when missing.
  static Result<Store> open(const std::string& state_dir);

  const std::string& state_dir() const { return state_dir_; }
  /// Where layers lie; see core/workspace/layer_store.h.
  std::string layers_dir() const;
  int layers() const { return layers_.get(); }
  std::string dir(std::string_view session) const;
  /// An open sessions/NAME; kNotFound with near names.
  Result<UniqueFd> open_dir(const std::string& session) const;

  /// Claims `record.name` with `record`. kExists when it is taken. `fill` adds to the directory,
  /// and may change the record, before the name is there.
  using Fill = std::function<Status(int dir, Record& record)>;
  Result<Lease> create(const Record& record, const Fill& fill = {}) const;
  /// Takes the session's lock; waits up to `patience` for another command (kTimeout with who).
  Result<Lease> lock(const std::string& session, Millis patience = Millis{60'000}) const;

  /// The session as it is now. A crashed one is reconciled when that needs no waiting.
  Result<Listing> look(const std::string& session) const;
  /// All, by name. Sessions that cannot be read are listed with their problem.
  Result<std::vector<Listing>> list() const;
  /// Names alone, sorted; cheap, for completion.
  std::vector<std::string> names() const;

  /// Removes the session's directory. Nobody may be alive in it.
  Status remove(Lease lease) const;
  /// What killed commands left: names of half-made and half-removed directories.
  /// `is_any_age`: the caller holds the lock of layers exclusively, so nobody makes one now.
  std::vector<std::string> leftovers(bool is_any_age = false) const;
  /// Removes one of them; one that is gone is success.
  Status remove_leftover(const std::string& name) const;
  /// Removes them all, as far as that can be done.
  void clear_leftovers() const;
  /// Ids of the layers that any session names. An unreadable record is an error: then nothing can
  /// be called unused.
  Result<std::vector<std::string>> used_layers() const;

 private:
  Store(std::string state_dir, UniqueFd sessions, UniqueFd layers)
      : state_dir_(std::move(state_dir)),
        sessions_(std::move(sessions)),
        layers_(std::move(layers)) {}
  bool is_abandoned(const std::string& half_made) const;

  std::string state_dir_;
  UniqueFd sessions_;
  UniqueFd layers_;
};

}  // namespace sbx::session
