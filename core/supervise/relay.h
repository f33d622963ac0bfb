// Relay: moves one stream of bytes from a descriptor to a descriptor or into memory, on the Loop.
//
// Bytes are never looked at, altered or reordered. It knows nothing of sandboxes: the inside's ends
// are descriptors of our own, the outside's (our stdin, stdout, stderr) are borrowed and shared
// with whoever started us, so no flag of theirs is ever changed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

namespace sbx::supervise {

enum class RelayState : std::uint8_t {
  kRunning,
  kEof,           ///< the source ended and everything was delivered
  kSinkClosed,    ///< nobody reads the sink any more (EPIPE); the source was closed
  kSinkFailed,    ///< the sink refused (disk full, ...), see error(); the source was closed
  kSourceFailed,  ///< see error()
  kStopped,       ///< by stop()
};

class Relay {
 public:
  /// Called once on the loop when the relay has ended by itself, never from within a factory or
  /// stop(). May destroy the relay.
  using Done = std::function<void()>;

  /// From a program's output to a borrowed descriptor of any kind: pipe, file (also O_APPEND),
  /// terminal, socket, device. Past `limit` bytes nothing more is passed on, but the source is
  /// still read, so that the program is not blocked.
  /// When the sink's reader goes away, the source is closed: the program's next write then fails as
  /// it would have without us. SIGPIPE must be ignored by the process.
  static std::unique_ptr<Relay> to_fd(
      Loop& loop, UniqueFd source, int sink, std::optional<Bytes> limit, Done done);

  /// From a program's output into memory: the first `limit` bytes are kept, all are counted.
  static std::unique_ptr<Relay> to_memory(Loop& loop, UniqueFd source, Bytes limit, Done done);

  /// From a borrowed descriptor to a program's input, which is closed at the end. It reads ahead
  /// as much as the program's pipe holds.
  static std::unique_ptr<Relay> from_fd(Loop& loop, int source, UniqueFd sink, Done done);

  /// The same where `sink` is the master of a terminal: the end of the source is sent as its
  /// end-of-file character, since closing a master would hang the terminal up.
  static std::unique_ptr<Relay> from_fd_to_terminal(Loop& loop,
                                                    int source,
                                                    UniqueFd sink,
                                                    Done done);

  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  RelayState state() const;
  bool running() const { return state() == RelayState::kRunning; }
  /// Why it ended in kSinkFailed or kSourceFailed.
  const std::optional<Error>& error() const;

  /// From now on shown every piece that comes out of the source, before it is passed on. It may not
  /// fail and must not block for long. Bytes then go through a buffer.
  using Tap = std::function<void(std::span<const char>)>;
  void set_tap(Tap tap);

  /// Once everything that is in the source now has been passed on, the sink is let go of and `then`
  /// is called, once, on the loop; what comes later is only counted and shown to the tap. `then` is
  /// not called when the relay has ended or ends before.
  void release_sink_when_drained(std::function<void()> then);

  /// The same at once, whatever was not passed on; nobody is called.
  void drop_sink();

  /// Bytes that came out of the source, passed on or not.
  std::uint64_t bytes() const;
  /// More bytes came than the limit allowed to pass on.
  bool truncated() const;
  /// Hands over what to_memory kept.
  std::string take_memory();

  /// Ends it now: both of our own descriptors are closed, what was not delivered is dropped.
  void stop();

 private:
  struct Impl;
  explicit Relay(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace sbx::supervise
