// Bridge stream: one stream of a bridge and its local descriptor.
//
// A source is read only as far as the far side's credit goes, and only when its owner asks for a
// frame; what comes is written to the sink at once, and kept (at most what was granted) while that
// takes nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/backend/vm/bridge_state.h"
#include "core/backend/vm/bridge_wire.h"
#include "core/base/loop.h"
#include "core/base/result.h"
#include "core/base/unique_fd.h"
#include "core/ipc/mux.h"

namespace sbx::vm {

class Stream;

class StreamOwner {
 public:
  StreamOwner() = default;
  StreamOwner(const StreamOwner&) = delete;
  StreamOwner& operator=(const StreamOwner&) = delete;
  virtual ~StreamOwner() = default;
  /// fill() may have something.
  virtual void on_source(Stream& stream) = 0;
  /// put_control() has something.
  virtual void on_control(Stream& stream) = 0;
  /// Bytes went on, or a half ended. May not destroy the stream.
  virtual void on_moved(Stream& stream) = 0;
};

/// The local end of a stream. Without a descriptor it is over from the start.
struct LocalEnd {
  UniqueFd fd;
  bool is_terminal = false;  ///< a master in the guest: its end is EIO
};

class Stream {
 public:
  Stream(Loop& loop, StreamOwner& owner, ipc::Side side, LiveStream state);

  std::uint32_t number() const { return state_.number; }
  std::uint32_t exec() const { return state_.exec; }
  std::uint8_t index() const { return state_.index; }
  ipc::Flow flow() const { return state_.flow; }
  bool sends() const { return sends_; }
  bool receives() const { return receives_; }

  /// Gives it its local end. With none: EOF is sent and RESET.
  void attach(LocalEnd end);
  /// The far side knows it by now: frames of it may be sent.
  void activate();
  bool is_active() const { return is_active_; }

  // What the wire says; kProtocol when it may not be said now.
  Status take_data(std::string_view payload);
  Status take_eof();
  Status take_credit(std::uint32_t more);
  Status take_reset();
  /// Lets the far side send more than the window.
  void grant(std::uint32_t more);
  /// The wire is over: what has come is delivered, nothing else happens.
  void wire_ended();

  /// Puts one DATA frame; whether there may be another one to put now.
  bool fill(Wire& wire);
  /// Puts CREDIT, EOF and RESET that are due.
  void put_control(Wire& wire);

  /// Bytes put into frames, and bytes written to the sink.
  std::uint64_t sent() const { return sent_; }
  std::uint64_t delivered() const { return delivered_; }
  std::size_t undelivered() const { return state_.undelivered.size() - at_; }
  /// What the source holds that is not sent.
  std::size_t unsent() const;
  /// How often the source had nothing: for terminals, which do not say what they hold.
  std::uint64_t times_dry() const { return times_dry_; }
  bool is_terminal() const { return is_terminal_; }

  bool is_sending_over() const {
    return !sends_ || (state_.is_source_over && state_.unsent.empty());
  }
  bool is_eof_sent() const { return !sends_ || state_.is_eof_sent; }
  bool is_delivering_over() const { return !receives_ || state_.is_sink_over; }
  bool is_over() const;

  bool is_ready = false;     ///< in the owner's queue of sources
  bool has_control = false;  ///< in the owner's other queue

  /// Stops or goes on to look at the local descriptor.
  void set_paused(bool is_paused);
  /// Reads what the source holds, at most `most` bytes, and what there is to know. Paused.
  LiveStream take_state(std::size_t most);

 private:
  void watch_source(bool is_wanted);
  void on_source_ready();
  void on_sink_ready(std::uint32_t events);
  void deliver();
  std::size_t write_out(std::string_view bytes);
  void count_delivered(std::size_t n);
  void source_over();
  void sink_over();
  void need_control();
  bool wants_source() const;
  void update_sink();

  Loop& loop_;
  StreamOwner& owner_;
  LiveStream state_;
  bool sends_ = false;
  bool receives_ = false;
  UniqueFd fd_;
  bool is_socket_ = false;
  bool is_terminal_ = false;
  bool is_active_ = false;
  bool is_paused_ = false;
  bool is_wire_over_ = false;
  bool is_credit_due_ = false;
  std::size_t at_ = 0;  // of state_.undelivered
  std::uint32_t granted_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t times_dry_ = 0;
  Watch source_watch_;
  Watch sink_watch_;
};

}  // namespace sbx::vm
