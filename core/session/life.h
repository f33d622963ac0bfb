// Life: who supervises a session now, by flock(2) on sessions/NAME/life.
//
// The kernel's lock decides, and goes with its holder however that ends. The text only says who it
// is and what it does, for messages, for `ls`, and for finding what a killed one left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "core/confine/process_identity.h"

namespace sbx::session {

/// kEnded is written last of all, in place: it tells a clean end from a crash even where a full
/// disk kept run.json from being written.
enum class LifeState : std::uint8_t { kStarting, kRunning, kPaused, kEnding, kEnded };

struct Life {
  confine::ProcessIdentity supervisor;
  std::optional<confine::ProcessIdentity> init;  ///< PID 1 of the sandbox
  LifeState state = LifeState::kStarting;
  std::string id;             ///< of the session (Record::id): names its control socket
  int protocol = 0;           ///< that its control socket speaks
  std::string version;        ///< of its sbx
  std::int64_t since_ns = 0;  ///< wall time of the start
  std::int64_t used_ns = 0;   ///< wall time of the last use
};

/// The text of the file, always kLifeTextSize bytes.
inline constexpr std::size_t kLifeTextSize = 1024;
std::string life_text(const Life& life);
/// nullopt when it is none of ours.
std::optional<Life> parse_life(std::string_view text);

/// Held by the supervisor as long as it lives.
class LifeLock {
 public:
  /// kExists when somebody is alive. `dir`: sessions/NAME.
  static Result<LifeLock> take(int dir);
  /// Rewrites the text in place, without a need for space.
  Status write(const Life& life) const;

 private:
  explicit LifeLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// Who is alive in `dir`; nullopt: nobody. What a dead one wrote last goes to `last` when that is
/// not null.
Result<std::optional<Life>> look_at_life(int dir, std::optional<Life>* last = nullptr);
/// Waits until nobody is alive: true, or false after `patience`. Blocks.
Result<bool> wait_for_end(int dir, Millis patience);

}  // namespace sbx::session
