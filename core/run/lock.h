// Lock: one run of a name at a time, per state directory, by flock(2).
//
// The kernel's lock decides who may run, and goes with its holder however that ends. The file's
// content only says who holds it: for messages, for --on-overlap kill, and for finding what a
// killed holder left alive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/confine/process_identity.h"

namespace sbx::run {

/// What happens when the lock is held.
enum class Overlap : std::uint8_t {
  kSkip,  ///< the new run does not take place
  kWait,  ///< it waits; those who wait get the lock in about the order in which they came
  kKill,  ///< the holder is ended (SIGTERM, after a grace SIGKILL) and the new run takes its place
};
std::optional<Overlap> parse_overlap(std::string_view word);

/// Who holds a lock, as its file says.
struct Holder {
  confine::ProcessIdentity process;              ///< the sbx that holds it
  std::optional<confine::ProcessIdentity> init;  ///< PID 1 of its sandbox, when there is one
  std::string run;                               ///< id of its run, may be empty
  std::int64_t since_ns = 0;                     ///< wall time
  bool operator==(const Holder&) const = default;
};

/// The content of a lock's file, always kLockTextSize bytes; null: nobody holds it.
inline constexpr std::size_t kLockTextSize = 1024;
std::string lock_text(const Holder* holder);
/// The reverse; nullopt when nobody holds it or the text is none of ours.
std::optional<Holder> parse_lock(std::string_view text);

/// Whether the holder is to be ended by a start that began later: a run that began after `self`
/// takes precedence over it. Processes that began in the same clock tick give way.
bool is_to_be_replaced(const Holder& holder, const confine::ProcessIdentity& self);

enum class LockEnd : std::uint8_t { kTaken, kSkipped, kDeadline, kInterrupted };

struct LockRequest {
  Overlap overlap = Overlap::kSkip;
  std::optional<std::int64_t> deadline_ns;  ///< CLOCK_MONOTONIC
  std::string run;                          ///< id of the run, for the lock's file
  std::function<void()>
      before_waiting;  ///< called once when it does not come at once; may be empty
};

class RunLock {
 public:
  /// Opens the lock `name` (see check_lock_name) below the state directory, making it if needed.
  static Result<RunLock> open(const std::string& state_dir, const std::string& name);
  /// Gives it up.
  ~RunLock();
  RunLock(RunLock&&) noexcept = default;
  RunLock& operator=(RunLock&&) = delete;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Takes it, or says why not. After kTaken nothing of a former holder's sandbox is alive. Blocks
  /// as long as `request` allows; SIGINT, SIGTERM, SIGHUP and SIGQUIT (unless ignored) end that.
  Result<LockEnd> take(const LockRequest& request);
  /// Writes down the PID 1 of our sandbox, for whoever takes the lock when we were killed.
  Status note_sandbox(int init_pidfd);
  /// The signal behind kInterrupted.
  int interrupted_by() const { return signal_; }
  /// Who stood in the way at the last look.
  const std::optional<Holder>& holder() const { return other_; }

 private:
  RunLock(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}
  Result<bool> try_take();
  Result<LockEnd> wait(const LockRequest& request);
  Status taken(const LockRequest& request);
  std::optional<Holder> read() const;
  Status write(const Holder* holder);

  UniqueFd fd_;
  std::string name_;
  std::optional<Holder> own_;  // set: we hold it
  std::optional<Holder> other_;
  int signal_ = 0;
};

}  // namespace sbx::run
