// Bridge: see bridge.h.
//
// Theory of operation. Two queues feed the wire: streams with something to say about themselves
// (CREDIT, EOF, RESET) and streams whose source has bytes, which take turns, one frame each; pieces
// of messages go between them. A stream's DATA cannot come before the message that it belongs to:
// it is activated when the last piece of that is in the wire's buffer. What may have come to an end
// (a stream, a message that is held back, the whole) is looked at in one place, check(), on a turn
// of its own, so that nothing is destroyed while it is in use; callbacks are called from there too.
#include "core/backend/vm/bridge.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/backend/vm/bridge_impl.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

using ipc::FrameKind;

Error broken(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("wire of the guest: ", what));
}

}  // namespace

Bridge::Impl::Impl(Loop& the_loop, ipc::Side the_side, UniqueFd fd, backend::AgentLink& link)
    : loop(the_loop),
      side(the_side),
      local(link),
      wire(the_loop, *this, std::move(fd)),
      parcels(the_side == ipc::Side::kHost ? ipc::Side::kAgent : ipc::Side::kHost) {}

// --- frames that come ---

Status Bridge::Impl::on_frame(const ipc::Frame& frame) {
  if (!has_greeted) return take_hello(frame);
  if (has_peer_end) return broken("a frame after the end");
  switch (frame.kind) {
    case FrameKind::kHello:
      return broken("a second greeting");
    case FrameKind::kMessage: {
      SBX_ASSIGN(std::optional<ipc::Parcel> parcel, parcels.take(frame.payload));
      return parcel.has_value() ? take_parcel(*std::move(parcel)) : Status();
    }
    case FrameKind::kOpen:
      return take_open(frame);
    case FrameKind::kAccept:
    case FrameKind::kRefuse:
      return broken("an answer to no question");
    case FrameKind::kEnding:
      return take_ending();
    case FrameKind::kEnd:
      return take_end();
    default:
      break;
  }
  const auto found = streams.find(frame.stream);
  if (found == streams.end() || !found->second->is_active()) {
    return broken("a frame of a stream that is not there");
  }
  Stream& stream = *found->second;
  if (frame.kind == FrameKind::kData) return stream.take_data(frame.payload);
  if (frame.kind == FrameKind::kCredit) return stream.take_credit(ipc::decode_u32(frame.payload));
  return frame.kind == FrameKind::kEof ? stream.take_eof() : stream.take_reset();
}

Status Bridge::Impl::take_hello(const ipc::Frame& frame) {
  if (frame.kind != FrameKind::kHello) return broken("no greeting");
  SBX_ASSIGN(const ipc::Hello hello, ipc::decode_hello(frame.payload));
  if (hello.version != ipc::kMuxVersion) {
    return broken(text::cat("it speaks version ", hello.version, ", not ", ipc::kMuxVersion));
  }
  if (hello.side != peer()) return broken("both ends are of the same side");
  if (hello.epoch != options.epoch) {
    return broken(text::cat("it is of epoch ", hello.epoch, ", not ", options.epoch));
  }
  has_greeted = true;
  return {};
}

/// Later: connections and questions of the guest. Nobody here takes them yet.
Status Bridge::Impl::take_open(const ipc::Frame& frame) {
  const bool is_number = frame.stream % 2 == 1 && frame.stream > last_peer;
  if (!is_host() || !is_number) return broken("a stream of a wrong number is opened");
  if (refused.size() >= kMaxOpens) return broken("answers are not read");
  last_peer = frame.stream;
  refused.push_back(frame.stream);
  wire.wake();
  return {};
}

Status Bridge::Impl::take_ending() {
  if (has_peer_ending) return broken("a second ending");
  has_peer_ending = true;
  if (!is_host()) {
    fail(Error(Errc::kProtocol, "the supervisor has gone"));
    return {};
  }
  // So that all that pipes hold fits, whether their readers read or not.
  std::uint64_t total = 0;
  for (const auto& [number, stream] : streams) {
    if (!stream->receives() || total + kFinalCredit > kFinalTotal) continue;
    total += kFinalCredit;
    stream->grant(kFinalCredit);
  }
  check_soon();
  return {};
}

Status Bridge::Impl::take_end() {
  if (is_host() ? !has_peer_ending : !is_end_sent) return broken("an end out of turn");
  has_peer_end = true;
  if (is_host()) {
    is_end_due = true;
    wire.wake();
    for (const auto& [number, stream] : streams) {
      stream->wire_ended();
    }
  }
  check_soon();
  return {};
}

void Bridge::Impl::on_wire_end(std::optional<Error> error) {
  if (is_over) return;
  is_wire_over = true;
  if (error.has_value() && (error->code() == Errc::kProtocol || !is_host())) {
    return fail(*std::move(error));  // nothing of it can be believed
  }
  if (!has_peer_end) {
    wire_error = error.has_value() ? *std::move(error) : broken("it was cut off");
    if (!is_host()) return fail(*wire_error);
  }
  for (const auto& [number, stream] : streams) {
    stream->wire_ended();
  }
  update_local();
  check_soon();
}

// --- frames that go ---

void Bridge::Impl::on_source(Stream& stream) {
  if (std::exchange(stream.is_ready, true)) return;
  sources.push_back(stream.number());
  wire.wake();
}

void Bridge::Impl::on_control(Stream& stream) {
  if (std::exchange(stream.has_control, true)) return;
  controls.push_back(stream.number());
  wire.wake();
}

void Bridge::Impl::on_moved(Stream& stream) {
  if (!holds.empty() || is_local_over || has_peer_ending || is_wire_over || stream.is_over()) {
    check_soon();
  }
}

void Bridge::Impl::on_fill() {
  if (is_over) return;
  if (std::exchange(is_hello_due, false)) {
    wire.put(FrameKind::kHello, 0, ipc::encode_hello({ipc::kMuxVersion, side, options.epoch}));
  }
  // A source that turns out to be at its end has something to say about itself instead.
  while (wire.has_room() && (put_next() || !controls.empty())) {
  }
}

/// One round: what is due of all kinds, a frame each. False when there was nothing.
bool Bridge::Impl::put_next() {
  bool did = false;
  while (!controls.empty() && wire.has_room()) {
    const auto found = streams.find(controls.front());
    controls.pop_front();
    if (found == streams.end()) continue;
    found->second->has_control = false;
    found->second->put_control(wire);
    did = true;
  }
  while (!refused.empty() && wire.has_room()) {
    wire.put(FrameKind::kRefuse, refused.front(), ipc::encode_u32(ECONNREFUSED));
    refused.pop_front();
    did = true;
  }
  if (!outgoing.empty() && wire.has_room()) {
    put_piece();
    did = true;
  }
  if (!is_paused && wire.has_room()) did = put_data() || did;
  return did || (outgoing.empty() && wire.has_room() && put_last_words());
}

void Bridge::Impl::put_piece() {
  Outgoing& message = outgoing.front();
  const std::size_t size = std::min(ipc::kMaxPayload - 1, message.bytes.size() - message.at);
  const bool is_last = message.at + size == message.bytes.size();
  const std::span<char> space = wire.space();
  space[0] = is_last ? 1 : 0;
  std::copy_n(message.bytes.data() + message.at, size, space.data() + 1);
  wire.commit(FrameKind::kMessage, 0, size + 1);
  message.at += size;
  if (!is_last) return;
  outgoing_size -= message.bytes.size();
  const std::vector<std::uint32_t> started = std::move(message.streams);
  outgoing.pop_front();
  for (const std::uint32_t number : started) {
    if (const auto found = streams.find(number); found != streams.end()) found->second->activate();
  }
  if (is_local_over) check_soon();
}

/// A frame of the stream whose turn it is.
bool Bridge::Impl::put_data() {
  while (!sources.empty()) {
    const auto found = streams.find(sources.front());
    sources.pop_front();
    if (found == streams.end()) continue;
    Stream& stream = *found->second;
    stream.is_ready = false;
    const std::uint64_t before = stream.sent();
    if (stream.fill(wire)) on_source(stream);
    if (stream.sent() != before) return true;
  }
  return false;
}

bool Bridge::Impl::put_last_words() {
  if (std::exchange(is_ending_due, false)) {
    is_ending_sent = true;
    wire.put(FrameKind::kEnding, 0);
    check_soon();
    return true;
  }
  if (is_end_due && !is_end_sent) {
    is_end_sent = true;
    wire.put(FrameKind::kEnd, 0);
    check_soon();
    return true;
  }
  return false;
}

// --- rest ---

void Bridge::Impl::on_flushed() {
  if (is_paused) check_soon();
}

void Bridge::Impl::on_limit() {
  is_limit_met = true;
  check_soon();
}

// --- the end ---

void Bridge::Impl::call_soon(std::function<void()> then) {
  calls.push_back(std::move(then));
  if (call_timer.active()) return;
  call_timer = loop.add_timer(Millis{0}, [this] {
    const auto now = std::exchange(calls, {});
    const std::weak_ptr<bool> us = alive;
    for (const auto& call : now) {
      if (us.expired()) return;  // destroyed by the one before
      call();
    }
  });
}

void Bridge::Impl::check_soon() {
  if (is_over || check_timer.active()) return;
  check_timer = loop.add_timer(Millis{0}, [this] { check(); });
}

void Bridge::Impl::check() {
  if (is_over) return;
  forget_over();
  check_holds();
  flush_local();
  if (is_over) return;
  if (on_drained_wire && is_limit_met) {
    const bool is_whole = !wire.has_half_a_frame() && parcels.buffered() == 0;
    Status status = is_whole ? Status() : Status(broken("it stops within a frame"));
    call_soon([then = std::exchange(on_drained_wire, nullptr), status] { then(status); });
  }
  const bool is_quiet = is_paused && !wire.has_unwritten() && controls.empty() &&
                        outgoing.empty() && refused.empty() && !is_hello_due &&
                        (!is_host() || incoming.empty());
  if (on_quiet && is_quiet) {
    wire.set_writing(false);
    const std::uint64_t written = wire.written_bytes();
    call_soon([then = std::exchange(on_quiet, nullptr), written] { then(written); });
  }
  check_end();
}

bool Bridge::Impl::has_sent_all() const {
  return holds.empty() && outgoing.empty() &&
         std::ranges::all_of(streams, [](const auto& s) { return s.second->is_eof_sent(); });
}

bool Bridge::Impl::has_delivered_all() const {
  return std::ranges::all_of(streams, [](const auto& s) { return s.second->is_delivering_over(); });
}

void Bridge::Impl::check_end() {
  if (!is_host()) {
    if (is_ending_sent && !is_end_due && has_sent_all()) {
      is_end_due = true;
      wire.wake();
    }
    if (!has_peer_end) return;
    for (auto& then : std::exchange(on_drained, {})) {
      call_soon(std::move(then));
    }
    return end({});
  }
  const bool has_all = has_peer_end || is_wire_over;
  if (!has_all || !holds.empty() || !incoming.empty()) return;
  if (!is_local_shut) {
    is_local_shut = true;
    (void)::shutdown(local.fd(), SHUT_RDWR);
    local_watch.remove();
  }
  const bool is_answered = is_wire_over || (is_end_sent && !wire.has_unwritten());
  if (!has_delivered_all()) return;
  if (!is_answered) return wire.wake();
  end(wire_error.has_value() ? Status(*wire_error) : Status());
}

void Bridge::Impl::fail(Error error) {
  end(Status(std::move(error)));
}

/// Stops everything now; who waits for the end is told on the loop.
void Bridge::Impl::end(Status status) {
  if (is_over) return;
  is_over = true;
  local_watch.remove();
  check_timer.remove();
  tick_timer.remove();
  wire.close();
  if (is_host() && !std::exchange(is_local_shut, true)) (void)::shutdown(local.fd(), SHUT_RDWR);
  call_soon([then = std::move(done), status = std::move(status)] {
    if (then) then(status);
  });
}

// --- Bridge ---

// NOLINTNEXTLINE(readability-function-size): six things that are known nowhere else
Bridge::Bridge(Loop& loop,
               ipc::Side side,
               UniqueFd wire,
               backend::AgentLink& local,
               std::function<void(Status)> on_end,
               BridgeOptions options)
    : impl_(std::make_unique<Impl>(loop, side, std::move(wire), local)) {
  Impl& impl = *impl_;
  impl.done = std::move(on_end);
  impl.options = std::move(options);
  impl.local_watch =
      loop.add_fd(local.fd(), 0, [&impl](std::uint32_t events) { impl.on_local(events); });
  if (!impl.options.state.empty()) {
    auto state = decode_state(std::exchange(impl.options.state, {}));
    if (!state.ok()) {
      impl.fail(std::move(state).error());
      return;
    }
    impl.restore(state.value());
  }
  impl.update_local();
  impl.wire.wake();
}

Bridge::~Bridge() = default;

bool Bridge::is_drained() const {
  return !impl_->is_host() && impl_->has_peer_end;
}

void Bridge::when_drained(std::function<void()> then) {
  if (is_drained()) return then();
  impl_->on_drained.push_back(std::move(then));
}

}  // namespace sbx::vm
