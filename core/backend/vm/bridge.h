// Bridge: carries what a supervisor and an agent say to each other, descriptors included, over one
// stream of bytes (the "wire") between a virtual machine's guest and its host.
//
// One class for both ends. On the host it plays the agent towards the supervisor, in a process of
// its own (bridge_process.h); in the guest it plays the supervisor towards the jail's agent. A
// descriptor of a message becomes a stream (core/ipc/mux.h), and on the far side a descriptor
// again: a pipe, a socket pair for a terminal, /dev/null for /dev/null. The process must ignore
// SIGPIPE.
//
// What holds:
//  - Order of the end of an exec. Exited is given on only after all bytes that the exec's output
//    streams held when it was said have gone the same way: into the wire (guest), into the local
//    descriptors (host). A reader that does not read keeps it back, as it would have kept the
//    program from writing them; but once a signal was sent to the exec (or it died of one, or the
//    sandbox has ended), only until nothing has moved for kStallTime.
//  - End of the sandbox. When the guest's agent has closed its side, the guest's bridge says
//    ENDING, the host grants credit for all that pipes can hold, the guest sends all that is in
//    them, and then END. Once the host has said END in return, everything that was written inside
//    is in the host's bridge and the machine may be switched off: when_drained() of the guest. The
//    host's bridge closes its local channel when it has passed on all messages, and is over when
//    every byte was written to the local descriptors or their readers are gone.
//  - A wire that ends without END (the machine was killed) is treated alike: what has arrived is
//    delivered, then it is over, with an error.
//  - Memory: at most ipc::kWindow bytes a stream (kFinalCredit more at the end, kFinalTotal
//    together), kMaxQueued of messages.
//  - Whatever the far side says that it may not say ends the bridge with kProtocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/backend/backend.h"
#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/ipc/channel.h"

namespace sbx::vm {

inline constexpr Millis kStallTime{500};
/// A pipe holds at most 1 MiB (fs.pipe-max-size), unless root of the guest says otherwise.
inline constexpr uint32_t kFinalCredit = 1U << 20;
inline constexpr uint64_t kFinalTotal = uint64_t{64} << 20;
/// Messages that wait for the wire. More ends the bridge: the far side does not take them.
inline constexpr size_t kMaxQueued = size_t{64} << 20;

struct BridgeOptions {
  /// Which life of the wire this is; both sides must be given the same.
  uint32_t epoch = 1;
  /// Host: what state() of an earlier bridge said, whose guest lives on. Empty: a new guest.
  std::string state;
  /// Guest: who owns the pipes of a program (backend::Sandbox::stream_owner).
  std::function<std::optional<backend::User>(const std::optional<backend::User>&)> stream_owner;
  /// Guest: takes the descriptor of /work that comes with Ready; it does not travel.
  std::function<void(UniqueFd)> on_work_dir;
};

class Bridge {
 public:
  /// Starts at once. `side` is ipc::Side::kHost or (the guest) kAgent. `wire` is a stream socket,
  /// or the guest's /dev/vportNpM (O_RDWR), where "no host there" means to wait. `local` outlives
  /// the bridge. `on_end` is called once, on the loop, when it is over (see above; success when the
  /// sandbox ended in order), and may destroy the bridge. In the guest an error there means that
  /// nobody listens any more: the jail is to be ended.
  Bridge(Loop& loop,
         ipc::Side side,
         UniqueFd wire,
         backend::AgentLink& local,
         std::function<void(Status)> on_end,
         BridgeOptions options = {});
  ~Bridge();
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  /// Guest: the sandbox has ended and the host's bridge has everything.
  bool is_drained() const;
  /// Calls `then` once that is so: on the loop, or at once.
  void when_drained(std::function<void()> then);

  // To rest, for a snapshot of the machine: guest.quiesce() says how much it wrote; the host does
  // drain_wire() of that many bytes, then quiesce(); the guest does drain_wire() of what that said.
  // Then no byte is under way and both may be stopped, or go on with resume().

  /// Stops looking at local descriptors, writes what is queued to the wire and then nothing more.
  /// `then` is told how many bytes this side has written since the wire's HELLO, which counts.
  void quiesce(std::function<void(uint64_t written)> then);
  /// Reads the wire up to `total` bytes since its HELLO and then no further. `then` is told once it
  /// has them; kProtocol when there were more already.
  void drain_wire(uint64_t total, std::function<void(Status)> then);
  /// After both are done: what the next host's bridge has to know. Bytes that came from the guest
  /// and were not delivered are in it, and those that wait in local pipes for the guest, and
  /// messages. It can still resume(), if the state is thrown away. kInternal when it is not at
  /// rest.
  Result<std::string> state();
  /// Goes on, over the same wire (a snapshot that failed) or over what has taken its place: the
  /// guest's port is the same file. `epoch` differs from the one before.
  void resume(uint32_t epoch);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace sbx::vm
