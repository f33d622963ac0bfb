// Bridge stream: see bridge_stream.h.
#include "core/backend/vm/bridge_stream.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

/// Delivered bytes are said to be so in pieces of this size.
constexpr std::uint32_t kCreditStep = ipc::kWindow / 4;

Error broken(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("wire of the guest: ", what));
}

bool is_hung_up(int fd) {
  pollfd p{.fd = fd, .events = 0, .revents = 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

Stream::Stream(Loop& loop, StreamOwner& owner, ipc::Side side, LiveStream state)
    : loop_(loop), owner_(owner), state_(std::move(state)) {
  const bool is_host = side == ipc::Side::kHost;
  const bool is_both = state_.flow == ipc::Flow::kBoth;
  sends_ = is_both || state_.flow == (is_host ? ipc::Flow::kToGuest : ipc::Flow::kToHost);
  receives_ = is_both || state_.flow == (is_host ? ipc::Flow::kToHost : ipc::Flow::kToGuest);
  is_credit_due_ = receives_ && state_.uncredited >= kCreditStep;
}

void Stream::attach(LocalEnd end) {
  fd_ = std::move(end.fd);
  is_terminal_ = end.is_terminal;
  if (!fd_.valid()) {
    if (sends_) source_over();
    if (receives_) sink_over();
    return;
  }
  struct stat info {};
  is_socket_ = ::fstat(fd_.get(), &info) == 0 && S_ISSOCK(info.st_mode);
  static_cast<void>(sys::set_nonblocking(fd_.get(), true));
  if (receives_ && !state_.is_sink_over) {
    sink_watch_ =
        loop_.add_fd(fd_.get(), EPOLLERR, [this](std::uint32_t events) { on_sink_ready(events); });
    update_sink();
  }
}

void Stream::activate() {
  is_active_ = true;
  if (wants_source()) watch_source(true);
  if (sends_ && !state_.unsent.empty() && state_.credit > 0) owner_.on_source(*this);
  need_control();
}

bool Stream::wants_source() const {
  return is_active_ && !is_paused_ && !is_wire_over_ && sends_ && !state_.is_source_over &&
         state_.credit > 0 && !is_ready;
}

void Stream::watch_source(bool is_wanted) {
  if (!is_wanted) return source_watch_.set_events(0);
  if (source_watch_.active()) return source_watch_.set_events(EPOLLIN);
  source_watch_ =
      loop_.add_fd(fd_.get(), EPOLLIN, [this](std::uint32_t /*events*/) { on_source_ready(); });
}

void Stream::on_source_ready() {
  watch_source(false);
  owner_.on_source(*this);
}

void Stream::update_sink() {
  std::uint32_t events = undelivered() != 0 ? EPOLLOUT : EPOLLERR;
  if (is_paused_) events = 0;
  sink_watch_.set_events(events);
}

void Stream::on_sink_ready(std::uint32_t events) {
  if (undelivered() != 0) return deliver();
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) sink_over();
}

// --- towards the wire ---

bool Stream::fill(Wire& wire) {
  if (!is_active_ || is_paused_ || is_wire_over_ || !sends_ || state_.credit == 0) return false;
  const std::size_t most = std::min<std::size_t>(state_.credit, ipc::kMaxPayload);
  std::size_t size = 0;
  bool has_more = true;
  if (!state_.unsent.empty()) {
    size = std::min(most, state_.unsent.size());
    std::memcpy(wire.space().data(), state_.unsent.data(), size);
    state_.unsent.erase(0, size);
    if (state_.unsent.empty()) need_control();
  } else {
    if (state_.is_source_over) return false;
    const Moved moved = read_some(fd_.get(), wire.space().data(), most);
    if (moved.would_block()) {
      ++times_dry_;
      watch_source(true);
      owner_.on_moved(*this);
      return false;
    }
    if (moved.n <= 0) {  // EIO: the last slave of a terminal was closed
      if (receives_ && is_hung_up(fd_.get())) sink_over();
      source_over();
      return false;
    }
    size = static_cast<std::size_t>(moved.n);
    has_more = size == most || is_terminal_;  // read until dry: see times_dry()
  }
  wire.commit(ipc::FrameKind::kData, state_.number, size);
  state_.credit -= static_cast<std::uint32_t>(size);
  sent_ += size;
  if (!has_more) watch_source(true);
  owner_.on_moved(*this);
  return has_more && state_.credit > 0;
}

void Stream::need_control() {
  const bool is_eof_due = sends_ && is_sending_over() && !state_.is_eof_sent;
  const bool is_reset_due = receives_ && state_.is_sink_over && !state_.is_reset_sent;
  if (is_active_ && !is_wire_over_ && (is_credit_due_ || is_eof_due || is_reset_due)) {
    owner_.on_control(*this);
  }
}

void Stream::put_control(Wire& wire) {
  using ipc::FrameKind;
  if (is_wire_over_ || !is_active_) return;
  if (is_credit_due_ && receives_ && !state_.is_reset_sent) {
    const std::uint32_t more = std::exchange(granted_, 0) + std::exchange(state_.uncredited, 0);
    state_.window += more;
    wire.put(FrameKind::kCredit, state_.number, ipc::encode_u32(more));
  }
  is_credit_due_ = false;
  if (sends_ && is_sending_over() && !state_.is_eof_sent) {
    state_.is_eof_sent = true;
    wire.put(FrameKind::kEof, state_.number);
  }
  if (receives_ && state_.is_sink_over && !state_.is_reset_sent) {
    state_.is_reset_sent = true;
    wire.put(FrameKind::kReset, state_.number);
  }
  owner_.on_moved(*this);
}

/// Nothing will come from the local end any more.
void Stream::source_over() {
  if (state_.is_source_over) return;
  state_.is_source_over = true;
  source_watch_.remove();
  if (is_delivering_over()) {
    sink_watch_.remove();
    fd_.reset();
  } else if (is_socket_) {
    (void)::shutdown(fd_.get(), SHUT_RD);
  }
  need_control();
  owner_.on_moved(*this);
}

std::size_t Stream::unsent() const {
  int bytes = 0;
  const bool has_fd = sends_ && !state_.is_source_over;
  if (has_fd && ::ioctl(fd_.get(), FIONREAD, &bytes) != 0) bytes = 0;
  return state_.unsent.size() + static_cast<std::size_t>(std::max(bytes, 0));
}

Status Stream::take_credit(std::uint32_t more) {
  if (!sends_ || state_.is_reset_received) return broken("credit for nothing");
  if (more == 0 || more > std::numeric_limits<std::uint32_t>::max() - state_.credit) {
    return broken("credit beyond all bounds");
  }
  state_.credit += more;
  if (wants_source() || !state_.unsent.empty()) owner_.on_source(*this);
  return {};
}

Status Stream::take_reset() {
  if (!sends_ || state_.is_reset_received) return broken("a second reset");
  state_.is_reset_received = true;
  state_.unsent.clear();
  source_over();
  need_control();
  owner_.on_moved(*this);
  return {};
}

// --- from the wire ---

Status Stream::take_data(std::string_view payload) {
  if (!receives_ || state_.is_eof_received) return broken("data after its end");
  if (payload.size() > state_.window) return broken("more data than was granted");
  state_.window -= static_cast<std::uint32_t>(payload.size());
  if (state_.is_sink_over) return {};
  if (undelivered() == 0 && !is_paused_) {
    payload.remove_prefix(write_out(payload));
    if (state_.is_sink_over || payload.empty()) return {};
  }
  if (at_ != 0 && at_ >= state_.undelivered.size() / 2) {
    state_.undelivered.erase(0, at_);
    at_ = 0;
  }
  state_.undelivered.append(payload);
  update_sink();
  return {};
}

Status Stream::take_eof() {
  if (!receives_ || state_.is_eof_received) return broken("a second end of a stream");
  state_.is_eof_received = true;
  if (undelivered() == 0) sink_over();
  owner_.on_moved(*this);
  return {};
}

void Stream::grant(std::uint32_t more) {
  if (!receives_ || state_.is_eof_received || state_.is_sink_over) return;
  granted_ += more;
  is_credit_due_ = true;
  need_control();
}

void Stream::wire_ended() {
  is_wire_over_ = true;
  if (sends_) {
    state_.unsent.clear();
    source_over();
  }
  if (!receives_) return;
  state_.is_eof_received = true;
  if (undelivered() == 0) sink_over();
}

void Stream::deliver() {
  const std::size_t n = write_out(std::string_view(state_.undelivered).substr(at_));
  if (state_.is_sink_over) return;
  at_ += n;
  if (undelivered() == 0) {
    state_.undelivered.clear();
    at_ = 0;
    update_sink();
    if (state_.is_eof_received) return sink_over();
  }
  if (n != 0) owner_.on_moved(*this);
}

/// As much as the sink takes now.
std::size_t Stream::write_out(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const Moved moved = write_some(fd_.get(), bytes.data() + done, bytes.size() - done, is_socket_);
    if (moved.would_block()) break;
    if (moved.n < 0) {  // EPIPE; EIO of a terminal that is gone
      sink_over();
      return done;
    }
    done += static_cast<std::size_t>(moved.n);
  }
  count_delivered(done);
  return done;
}

void Stream::count_delivered(std::size_t n) {
  delivered_ += n;
  if (state_.is_eof_received) return;
  state_.uncredited += static_cast<std::uint32_t>(n);
  if (state_.uncredited < kCreditStep) return;
  is_credit_due_ = true;
  need_control();
}

/// Everything was delivered, or nobody takes it.
void Stream::sink_over() {
  if (state_.is_sink_over) return;
  state_.is_sink_over = true;
  state_.undelivered.clear();
  state_.undelivered.shrink_to_fit();
  at_ = 0;
  is_credit_due_ = false;
  sink_watch_.remove();
  if (!sends_ || state_.is_source_over) {
    source_watch_.remove();
    fd_.reset();
  } else if (is_socket_) {
    (void)::shutdown(fd_.get(), SHUT_WR);
  }
  need_control();
  owner_.on_moved(*this);
}

bool Stream::is_over() const {
  const bool has_sent = !sends_ || (state_.is_eof_sent && state_.is_reset_received);
  const bool has_received = !receives_ || (state_.is_eof_received && state_.is_reset_sent);
  return has_sent && has_received;
}

// --- rest ---

void Stream::set_paused(bool is_paused) {
  is_paused_ = is_paused;
  if (receives_ && !state_.is_sink_over) update_sink();
  if (is_paused) return watch_source(false);
  if (wants_source()) watch_source(true);
  if (sends_ && !state_.unsent.empty() && state_.credit > 0) owner_.on_source(*this);
  need_control();
}

LiveStream Stream::take_state(std::size_t most) {
  if (sends_ && !state_.is_source_over) {
    std::string piece(ipc::kMaxPayload, '\0');
    while (state_.unsent.size() < most) {
      const Moved moved = read_some(fd_.get(), piece.data(), piece.size());
      if (moved.would_block()) break;
      if (moved.n <= 0) {
        state_.is_source_over = true;
        break;
      }
      state_.unsent.append(piece, 0, static_cast<std::size_t>(moved.n));
    }
  }
  LiveStream out = state_;
  out.undelivered.erase(0, at_);
  out.uncredited += granted_;
  return out;
}

}  // namespace sbx::vm
