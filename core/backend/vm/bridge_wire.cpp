// Wire: see bridge_wire.h.
#include "core/backend/vm/bridge_wire.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/sys.h"

namespace sbx::vm {

namespace {

constexpr std::size_t kInSize = std::size_t{256} << 10U;
constexpr std::size_t kOutSize = std::size_t{256} << 10U;
/// After so many bytes others on the loop get their turn.
constexpr std::size_t kBytesPerTurn = std::size_t{1} << 20U;
constexpr int kFirstPauseMs = 1;
constexpr int kLongestPauseMs = 200;

template <typename Call>
Moved retry(Call call) {
  for (;;) {
    const ssize_t n = call();
    if (n >= 0) return {n, 0};
    if (errno != EINTR) return {-1, errno};
  }
}

}  // namespace

bool Moved::would_block() const {
  return n < 0 && err == EAGAIN;
}

Moved read_some(int fd, char* to, std::size_t size) {
  return retry([&] { return ::read(fd, to, size); });
}

Moved write_some(int fd, const char* from, std::size_t size, bool is_socket) {
  return retry(
      [&] { return is_socket ? ::send(fd, from, size, MSG_NOSIGNAL) : ::write(fd, from, size); });
}

Wire::Wire(Loop& loop, WireOwner& owner, UniqueFd fd)
    : loop_(loop), owner_(owner), fd_(std::move(fd)), in_(kInSize), out_(kOutSize) {
  struct stat info {};
  if (::fstat(fd_.get(), &info) == 0) {
    is_socket_ = S_ISSOCK(info.st_mode);
    is_port_ = S_ISCHR(info.st_mode);
  }
  static_cast<void>(sys::set_nonblocking(fd_.get(), true));
  watch_ = loop_.add_fd(fd_.get(), EPOLLIN, [this](std::uint32_t events) { on_ready(events); });
}

void Wire::update() {
  if (is_over_ || pause_.active()) {
    watch_.set_events(0);
    return;
  }
  std::uint32_t events = 0;
  if (is_reading_ && read_ < limit_) events |= EPOLLIN;
  if (is_writing_ && wants_to_write_ && !is_broken_) events |= EPOLLOUT;
  watch_.set_events(events);
}

void Wire::wake() {
  if (wants_to_write_) return;
  wants_to_write_ = true;
  update();
}

void Wire::put(ipc::FrameKind kind, std::uint32_t stream, std::string_view payload) {
  std::ranges::copy(payload, space().begin());
  commit(kind, stream, payload.size());
}

void Wire::commit(ipc::FrameKind kind, std::uint32_t stream, std::size_t size) {
  const auto header = ipc::encode_frame_header({static_cast<std::uint32_t>(size), kind, stream});
  std::memcpy(out_.data() + end_, header.data(), header.size());
  end_ += header.size() + size;
}

void Wire::set_reading(bool is_reading) {
  is_reading_ = is_reading;
  update();
}

void Wire::set_writing(bool is_writing) {
  is_writing_ = is_writing;
  update();
}

void Wire::set_limit(std::uint64_t total) {
  limit_ = total;
  update();
  if (read_ == limit_) owner_.on_limit();
}

void Wire::restart() {
  read_ = written_ = 0;
  limit_ = kNoLimit;
  is_reading_ = is_writing_ = true;
  wants_to_write_ = true;
  update();
}

void Wire::close() {
  is_over_ = true;
  pause_.remove();
  watch_.remove();
  fd_.reset();
}

void Wire::end(std::optional<Error> error) {
  if (is_over_) return;
  close();
  owner_.on_wire_end(std::move(error));
}

void Wire::on_ready(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) write();
  if (is_over_) return;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && is_reading_ && read_ < limit_) {
    read();
  } else if ((events & (EPOLLHUP | EPOLLERR)) != 0 && (events & EPOLLOUT) == 0) {
    // Only waiting to write, and nobody is there. A socket is broken for good.
    if (is_port_) {
      wait_for_host();
    } else {
      is_broken_ = true;
      update();
    }
  }
}

/// A guest's port without a host: looked at again, less and less often.
void Wire::wait_for_host() {
  pause_ms_ = std::clamp(pause_ms_ * 2, kFirstPauseMs, kLongestPauseMs);
  pause_ = loop_.add_timer(Millis{pause_ms_}, [this] { update(); });
  update();
}

void Wire::read() {
  std::size_t turn = 0;
  while (turn < kBytesPerTurn && is_reading_ && read_ < limit_) {
    const std::size_t room = in_.size() - in_end_;
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(room, limit_ - read_));
    const Moved moved = read_some(fd_.get(), in_.data() + in_end_, want);
    if (moved.would_block()) return;
    if (moved.n <= 0 && is_port_ && moved.err == 0) return wait_for_host();
    if (moved.n == 0 || moved.err == ECONNRESET) return end(std::nullopt);
    if (moved.n < 0) return end(sys_error("read from the wire", moved.err));
    const auto n = static_cast<std::size_t>(moved.n);
    pause_ms_ = 0;
    turn += n;
    read_ += n;
    in_end_ += n;
    if (!take_frames()) return;
    if (read_ == limit_) {
      update();
      owner_.on_limit();
      return;
    }
    if (n < want) return;
  }
}

/// Hands on what is whole and keeps the rest; false when the wire has ended.
bool Wire::take_frames() {
  std::string_view bytes(in_.data(), in_end_);
  while (true) {
    auto frame = ipc::take_frame(bytes);
    if (!frame.ok()) {
      end(std::move(frame).error());
      return false;
    }
    if (!frame.value().has_value()) break;
    Status taken = owner_.on_frame(*frame.value());
    if (is_over_) return false;
    if (!taken.ok()) {
      end(std::move(taken).error());
      return false;
    }
  }
  std::memmove(in_.data(), bytes.data(), bytes.size());
  in_end_ = bytes.size();
  return true;
}

void Wire::write() {
  std::size_t turn = 0;
  while (turn < kBytesPerTurn) {
    if (at_ == end_) {
      at_ = end_ = 0;
      owner_.on_fill();
      if (is_over_) return;
      if (end_ == 0) {
        wants_to_write_ = false;
        update();
        owner_.on_flushed();
        return;
      }
    }
    const Moved moved = write_some(fd_.get(), out_.data() + at_, end_ - at_, is_socket_);
    if (moved.would_block()) return;
    if (moved.n < 0) {  // what it said before that can still be read
      is_broken_ = true;
      return update();
    }
    at_ += static_cast<std::size_t>(moved.n);
    written_ += static_cast<std::uint64_t>(moved.n);
    turn += static_cast<std::size_t>(moved.n);
  }
}

}  // namespace sbx::vm
