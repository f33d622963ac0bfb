// Channel: messages with descriptors over one SOCK_SEQPACKET socket.
//
// A frame that does not fit a datagram (an argv of megabytes) travels in a sealed memfd that is
// the first descriptor; only the host may do that.
#pragma once

#include <span>

#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/ipc/message.h"

namespace sbx::ipc {

/// Most descriptors in one message.
inline constexpr size_t kMaxFds = 64;

enum class Side { kHost, kAgent };
enum class Wait { kNo, kYes };

class Channel {
 public:
  /// Takes a connected SEQPACKET socket; `side` is the one this process plays.
  Channel(UniqueFd socket, Side side) : socket_(std::move(socket)), side_(side) {}

  int fd() const { return socket_.get(); }
  /// Blocks while the other side does not read. Descriptors stay the caller's.
  Status send(const Message& message, std::span<const int> fds = {});
  /// kNotFound when nothing is there (Wait::kNo), kProtocol when the other side has gone ("the
  /// other side closed the channel") or sent rubbish.
  Result<Received> receive(Wait wait);

 private:
  UniqueFd socket_;
  Side side_;
};

/// Whether a failed send() means that the other side has ended. What it said before that can still
/// be received.
bool is_other_side_gone(const Error& error);

}  // namespace sbx::ipc
