// Wire: what a command and a session's supervisor say to each other over the control socket.
//
// Frames as in core/ipc/fields.h; descriptors travel with the first byte (SCM_RIGHTS, unix(7)).
// Each request says `protocol`; a supervisor that does not speak it answers with an error and its
// own number. Both ends are processes of one user, outside of the sandbox.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/ipc/fields.h"

namespace sbx::session {

inline constexpr int kControlProtocol = 1;
inline constexpr std::size_t kMostFrameFds = 8;

using ipc::decode_frame;
using ipc::encode_frame;
using ipc::error_fields;
using ipc::error_of;
using ipc::Fields;
using ipc::kLongestFrame;

struct Frame {
  Fields fields;
  std::vector<UniqueFd> fds;
};

/// Puts frames together from what a socket delivers piece by piece.
class FrameReader {
 public:
  /// Reads what is there. nullopt: nothing more for now. kProtocol at the end of the stream ("the
  /// other side closed the connection") and for rubbish.
  Result<std::optional<Frame>> next(int socket);

 private:
  Status fill(int socket, bool& has_more);
  std::string buffer_;
  std::vector<UniqueFd> fds_;
};

/// Sends a frame; blocks while the other side does not read.
Status send_frame(int socket, const Fields& fields, std::span<const int> fds = {});
/// Waits for a frame.
Result<Frame> receive_frame(int socket, FrameReader& reader);

/// One connection on a loop: frames in, frames out, nothing blocks.
class Connection {
 public:
  /// `on_frame` may destroy the connection; `on_end` (the other side went, or sent rubbish) as
  /// well. Neither is called from within send().
  Connection(Loop& loop,
             UniqueFd socket,
             std::function<void(Frame)> on_frame,
             std::function<void()> on_end);
  /// Queues a frame. `fds` are duplicated.
  void send(const Fields& fields, std::span<const int> fds = {});
  int fd() const { return socket_.get(); }
  bool is_open() const { return is_open_; }

 private:
  struct Outgoing {
    std::string bytes;
    std::size_t sent = 0;
    std::vector<UniqueFd> fds;
  };
  void on_ready(std::uint32_t events);
  void read();
  bool write();
  void end();

  Loop& loop_;
  UniqueFd socket_;
  FrameReader reader_;
  std::vector<Outgoing> queue_;
  std::function<void(Frame)> on_frame_;
  std::function<void()> on_end_;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
  bool is_open_ = true;
  Watch watch_;

 public:
  ~Connection() { *is_alive_ = false; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
};

}  // namespace sbx::session
