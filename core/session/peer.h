// Peer: one command that is connected to a session's supervisor, and the table of what it may ask.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/session/daemon.h"
#include "core/session/wire.h"

namespace sbx::session {

class Peer {
 public:
  /// `on_end`: it has gone; destroys us.
  Peer(Daemon& daemon, UniqueFd socket, std::function<void()> on_end);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  Daemon& daemon() { return daemon_; }
  Connection& connection() { return connection_; }
  void answer(const Fields& fields, std::span<const int> fds = {}) {
    connection_.send(fields, fds);
  }
  void answer(const Status& status);
  /// A callback that answers with a status, and does nothing once the peer has gone.
  std::function<void(Status)> later();
  /// For callbacks that may outlive the peer.
  std::weak_ptr<Peer*> self() const { return self_; }

  /// The session's programs stand still while any peer holds them.
  void begin_hold(std::function<void(Status)> then);
  void end_hold(std::function<void(Status)> then);

  /// Programs that are hung up when the peer goes.
  void attach(std::uint32_t exec) { attached_.push_back(exec); }

 private:
  void on_frame(Frame frame);

  Daemon& daemon_;
  std::vector<std::uint32_t> attached_;
  bool is_holding_ = false;
  std::shared_ptr<Peer*> self_;
  Connection connection_;
};

/// One row of the table of requests.
struct RequestRow {
  std::string_view op;
  void (*handle)(Peer& peer, Frame& frame);
};
std::span<const RequestRow> request_rows();

/// Whether the process at the other end of a unix socket is ours: our user, and in our user
/// namespace (with one mapped id, a program inside has our uid).
Status check_peer(int socket);

}  // namespace sbx::session
