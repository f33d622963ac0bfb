// Wire: see wire.h.
#include "core/session/wire.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/sys.h"
namespace sbx::session {

namespace {

using ipc::kFrameLengthSize;
constexpr std::size_t kReadSize = std::size_t{64} << 10U;

/// One sendmsg; the number of bytes taken, 0 when it would block.
Result<std::size_t> send_piece(int socket, std::string_view bytes, std::span<const int> fds) {
  iovec io{const_cast<char*>(bytes.data()), bytes.size()};  // NOLINT: sendmsg(2) does not write
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFrameFds * sizeof(int))> control{};
  if (!fds.empty()) {
    if (fds.size() > kMostFrameFds) return Error(Errc::kInternal, "too many descriptors");
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  }
  while (true) {
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN) return std::size_t{0};
    if (errno != EINTR) return sys_error("send on the control socket");
  }
}

Error closed() {
  return Error(Errc::kProtocol, "the other side closed the connection");
}

}  // namespace

Status FrameReader::fill(int socket, bool& has_more) {
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kReadSize);
  iovec io{buffer_.data() + before, kReadSize};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFrameFds * sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  has_more = got > 0;
  if (got < 0 && error != EAGAIN) return sys_error("receive on the control socket", error);
  if (got == 0) return closed();
  if (got < 0) return {};
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      fds_.emplace_back(fd);
    }
  }
  if (fds_.size() > kMostFrameFds) return Error(Errc::kProtocol, "too many descriptors");
  return {};
}

Result<std::optional<Frame>> FrameReader::next(int socket) {
  while (true) {
    if (buffer_.size() >= kFrameLengthSize) {
      const std::size_t length = ipc::frame_length(buffer_);
      if (length > kLongestFrame) return Error(Errc::kProtocol, "a frame that is too long");
      if (buffer_.size() >= kFrameLengthSize + length) {
        Frame frame;
        SBX_ASSIGN(frame.fields,
                   decode_frame(std::string_view(buffer_).substr(kFrameLengthSize, length)));
        frame.fds = std::exchange(fds_, {});
        buffer_.erase(0, kFrameLengthSize + length);
        return std::optional<Frame>(std::move(frame));
      }
    }
    bool has_more = false;
    SBX_TRY(fill(socket, has_more));
    if (!has_more) return std::optional<Frame>();
  }
}

Status send_frame(int socket, const Fields& fields, std::span<const int> fds) {
  const std::string bytes = encode_frame(fields);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    SBX_ASSIGN(const std::size_t sent, send_piece(socket, rest, fds));
    if (sent > 0) {
      rest.remove_prefix(sent);
      fds = {};
      continue;
    }
    std::array<pollfd, 1> polled{{{socket, POLLOUT, 0}}};
    SBX_TRY(sys::poll(polled, Millis{-1}));
  }
  return {};
}

Result<Frame> receive_frame(int socket, FrameReader& reader) {
  while (true) {
    SBX_ASSIGN(std::optional<Frame> frame, reader.next(socket));
    if (frame.has_value()) return *std::move(frame);
    std::array<pollfd, 1> polled{{{socket, POLLIN, 0}}};
    SBX_TRY(sys::poll(polled, Millis{-1}));
  }
}

Connection::Connection(Loop& loop,
                       UniqueFd socket,
                       std::function<void(Frame)> on_frame,
                       std::function<void()> on_end)
    : loop_(loop),
      socket_(std::move(socket)),
      on_frame_(std::move(on_frame)),
      on_end_(std::move(on_end)) {
  watch_ = loop_.add_fd(socket_.get(), EPOLLIN, [this](std::uint32_t events) { on_ready(events); });
}

void Connection::send(const Fields& fields, std::span<const int> fds) {
  if (!is_open_) return;
  Outgoing outgoing{encode_frame(fields), 0, {}};
  for (const int fd : fds) {
    if (auto copy = sys::dup(fd); copy.ok()) outgoing.fds.push_back(std::move(copy).value());
  }
  queue_.push_back(std::move(outgoing));
  // A failure shows as the end of the stream, on the loop.
  if (!write()) return;
  watch_.set_events(queue_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

/// False when the other side takes nothing any more.
bool Connection::write() {
  while (!queue_.empty()) {
    Outgoing& first = queue_.front();
    std::vector<int> fds;
    for (const UniqueFd& fd : first.fds) {
      fds.push_back(fd.get());
    }
    const auto sent =
        send_piece(socket_.get(), std::string_view(first.bytes).substr(first.sent), fds);
    if (!sent.ok()) {
      queue_.clear();
      return false;
    }
    if (sent.value() == 0) return true;
    first.fds.clear();
    first.sent += sent.value();
    if (first.sent == first.bytes.size()) queue_.erase(queue_.begin());
  }
  return true;
}

void Connection::on_ready(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    (void)write();
    watch_.set_events(queue_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read();
}

void Connection::read() {
  const std::shared_ptr<bool> is_alive = is_alive_;
  while (true) {
    auto frame = reader_.next(socket_.get());
    if (!frame.ok()) return end();
    if (!frame.value().has_value()) return;
    on_frame_(*std::move(frame).value());
    if (!*is_alive || !is_open_) return;
  }
}

void Connection::end() {
  is_open_ = false;
  watch_.remove();
  const auto call = std::move(on_end_);
  if (call) call();  // last: it may destroy us
}

}  // namespace sbx::session
