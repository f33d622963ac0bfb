// Bridge impl: what the parts of a bridge share: frames and its end (bridge), messages and their
// descriptors (bridge_messages), ends of execs that wait (bridge_execs), rest (bridge_rest).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/vm/bridge.h"
#include "core/backend/vm/bridge_state.h"
#include "core/backend/vm/bridge_stream.h"
#include "core/backend/vm/bridge_wire.h"

namespace sbx::vm {

/// Most streams at a time: an exec has three.
inline constexpr std::size_t kMaxStreams = 4096;
/// Most OPENs of the guest that were not answered yet.
inline constexpr std::size_t kMaxOpens = 256;

struct Bridge::Impl final : public WireOwner, public StreamOwner {
  /// A packed message on its way into the wire.
  struct Outgoing {
    std::string bytes;
    std::size_t at = 0;
    std::vector<std::uint32_t> streams;  ///< to be activated once it is there
  };
  /// A message for the local side, and its descriptors.
  struct Incoming {
    ipc::Message message;
    std::vector<UniqueFd> fds;
    std::size_t size = 0;
  };
  /// How far a stream has to get.
  struct Target {
    std::uint32_t stream = 0;
    std::uint64_t amount = 0;
    std::uint64_t times_dry = 0;
  };
  /// An Exited that waits for the exec's output.
  struct Hold {
    ipc::Message message;
    std::uint32_t exec = 0;
    std::vector<Target> targets;
    std::uint64_t progress = 0;
    int idle_ticks = 0;
  };

  Impl(Loop& the_loop, ipc::Side the_side, UniqueFd fd, backend::AgentLink& link);

  bool is_host() const { return side == ipc::Side::kHost; }
  ipc::Side peer() const { return is_host() ? ipc::Side::kAgent : ipc::Side::kHost; }

  // --- bridge.cpp ---
  Status on_frame(const ipc::Frame& frame) override;
  void on_fill() override;
  void on_flushed() override;
  void on_limit() override;
  void on_wire_end(std::optional<Error> error) override;
  void on_source(Stream& stream) override;
  void on_control(Stream& stream) override;
  void on_moved(Stream& stream) override;

  Status take_hello(const ipc::Frame& frame);
  Status take_open(const ipc::Frame& frame);
  Status take_ending();
  Status take_end();
  bool put_next();
  void put_piece();
  bool put_data();
  bool put_last_words();
  /// Looks, on the next turn, at everything that may have come to its end.
  void check_soon();
  void check();
  void check_end();
  bool has_sent_all() const;
  bool has_delivered_all() const;
  void fail(Error error);
  void end(Status status);
  void call_soon(std::function<void()> then);

  // --- bridge_messages.cpp ---
  static std::uint32_t id_of(const ipc::Message& message);
  void on_local(std::uint32_t events);
  void update_local();
  void read_local();
  void local_ended();
  Status take_local(ipc::Received received);
  Status take_local_start(ipc::Received& received);
  void take_started(ipc::Received& received, std::vector<ipc::Port>& ports);
  Status take_parcel(ipc::Parcel parcel);
  Status open_guest_ends(ipc::Parcel& parcel, std::vector<UniqueFd>& inner);
  Status open_terminal(const ipc::Parcel& parcel, std::vector<UniqueFd>& inner);
  Status check_ports(const ipc::Parcel& parcel);
  Stream& add_stream(const ipc::Port& port, std::uint32_t exec, std::size_t index);
  void queue(const ipc::Message& message, std::span<const ipc::Port> ports);
  void give(ipc::Message message, std::vector<UniqueFd> fds);
  void flush_local();

  // --- bridge_execs.cpp ---
  void note_exec(const ipc::Message& message);
  void note_signal(const ipc::Message& message);
  void pass_exited(ipc::Message message);
  void release(Hold hold);
  bool is_met(const Target& target) const;
  bool is_stallable(const Hold& hold) const;
  void check_holds();
  void tick();
  void forget_over();

  // --- bridge_rest.cpp ---
  void set_paused(bool is_paused);
  void restore(const BridgeState& state);
  void restore_exec(const LiveExec& exec, const std::vector<LiveStream>& all);

  Loop& loop;
  ipc::Side side;
  backend::AgentLink& local;
  std::function<void(Status)> done;
  BridgeOptions options;
  Wire wire;

  std::map<std::uint32_t, std::unique_ptr<Stream>> streams;
  std::map<std::uint32_t, LiveExec> execs;
  std::uint32_t last_own = 0;
  std::uint32_t last_peer = 0;
  std::deque<std::uint32_t> sources;  // in turn
  std::deque<std::uint32_t> controls;
  std::deque<Outgoing> outgoing;
  std::size_t outgoing_size = 0;
  std::deque<std::uint32_t> refused;
  std::deque<Incoming> incoming;
  std::size_t incoming_size = 0;
  ipc::ParcelReader parcels;
  std::vector<Hold> holds;

  bool is_hello_due = true;
  bool has_greeted = false;  // the peer
  bool is_local_over = false;
  bool is_local_shut = false;
  bool is_ending_due = false;
  bool is_ending_sent = false;
  bool has_peer_ending = false;
  bool is_end_due = false;
  bool is_end_sent = false;
  bool has_peer_end = false;
  bool is_wire_over = false;
  bool is_over = false;
  bool is_paused = false;
  bool is_limit_met = false;
  std::optional<Error> wire_error;

  std::function<void(std::uint64_t)> on_quiet;
  std::function<void(Status)> on_drained_wire;
  std::vector<std::function<void()>> on_drained;
  std::vector<std::function<void()>> calls;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
  Watch local_watch;
  Watch check_timer;
  Watch call_timer;
  Watch tick_timer;
};

}  // namespace sbx::vm
