// Channel: see channel.h.
#include "core/ipc/channel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/sys.h"
#include "core/ipc/codec.h"

namespace sbx::ipc {

namespace {

// Stays below the default net.core.wmem_max (212,992 bytes, half of it for book-keeping).
constexpr size_t kMaxDatagram = size_t{72} << 10;
// Marks a datagram whose body is in its first descriptor.
constexpr char kInline = 0;
constexpr char kInMemfd = 1;

using ControlBuffer = std::array<char, CMSG_SPACE(sizeof(int) * (kMaxFds + 1))>;

/// What one datagram is made of, gathered by the kernel.
struct Parts {
  char how;
  std::string_view header;
  std::string_view body;
};

Status send_datagram(int socket, Parts parts, std::span<const int> fds) {
  if (fds.size() > kMaxFds + 1) return Error(Errc::kInternal, "too many descriptors in a message");
  // sendmsg(2) does not write through these.
  std::array<iovec, 3> iov{
      {{&parts.how, 1},
       {const_cast<char*>(parts.header.data()), parts.header.size()},  // NOLINT
       {const_cast<char*>(parts.body.data()), parts.body.size()}}};    // NOLINT
  msghdr header{};
  header.msg_iov = iov.data();
  header.msg_iovlen = iov.size();
  alignas(cmsghdr) ControlBuffer control{};
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = SCM_RIGHTS;
    message->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(message), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return sys_error("sendmsg to the other side of the sandbox");
  return {};
}

struct Datagram {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

/// Length of the next datagram (SOCK_SEQPACKET gives it with MSG_TRUNC), so that no more is
/// allocated than it holds. 0 at the end. ECONNRESET only says, once, that the other side ended
/// without having read all of ours; what it sent before is still there to be read.
Result<size_t> peek_length(int socket, Wait wait) {
  ssize_t length = -1;
  do {
    length =
        ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC | (wait == Wait::kNo ? MSG_DONTWAIT : 0));
  } while (length < 0 && (errno == EINTR || errno == ECONNRESET));
  if (length >= 0) return static_cast<size_t>(length);
  if (errno == EAGAIN) return Error(Errc::kNotFound, "no message is waiting");
  return sys_error("recv from the other side of the sandbox");
}

Result<Datagram> receive_datagram(int socket, Wait wait) {
  SBX_ASSIGN(const size_t length, peek_length(socket, wait));
  if (length == 0) return Error(Errc::kProtocol, "the other side closed the channel");
  if (length > kMaxDatagram) return Error(Errc::kProtocol, "a message was longer than allowed");
  Datagram datagram;
  datagram.bytes.resize(length);
  iovec iov{datagram.bytes.data(), datagram.bytes.size()};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &iov;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && (errno == EINTR || errno == ECONNRESET));  // it may end between the two calls
  if (got < 0) return sys_error("recvmsg from the other side of the sandbox");
  for (cmsghdr* m = CMSG_FIRSTHDR(&header); m != nullptr; m = CMSG_NXTHDR(&header, m)) {
    if (m->cmsg_level != SOL_SOCKET || m->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (m->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(m) + i * sizeof(int), sizeof(int));
      datagram.fds.emplace_back(fd);
    }
  }
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return Error(Errc::kProtocol, "a message was longer than allowed");
  }
  datagram.bytes.resize(static_cast<size_t>(got));
  return datagram;
}

Result<std::string> read_memfd(int fd, size_t size) {
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(fd, bytes.data() + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_error("pread of a message body");
    if (got == 0) return Error(Errc::kProtocol, "a message body is cut short");
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace

Status Channel::send(const Message& message, std::span<const int> fds) {
  const std::string body = encode_body(message);
  const std::string header = encode_header(message, body.size());
  if (body.size() + kHeaderSize + 1 <= kMaxDatagram) {
    return send_datagram(socket_.get(), {kInline, header, body}, fds);
  }
  if (side_ == Side::kAgent || body.size() > kMaxBodyToAgent) {
    return Error(Errc::kLimit, "message to the other side of the sandbox is too long");
  }
  SBX_ASSIGN(UniqueFd memfd, sys::memfd_create("sbx-message"));
  SBX_TRY(sys::write_all(memfd.get(), body));
  std::vector<int> all{memfd.get()};
  all.insert(all.end(), fds.begin(), fds.end());
  return send_datagram(socket_.get(), {kInMemfd, header, {}}, all);
}

Result<Received> Channel::receive(Wait wait) {
  SBX_ASSIGN(Datagram datagram, receive_datagram(socket_.get(), wait));
  std::string_view bytes(datagram.bytes);
  const char how = bytes.front();
  bytes.remove_prefix(1);
  const size_t max = side_ == Side::kHost ? kMaxBodyFromAgent : kMaxBodyToAgent;
  SBX_ASSIGN(const Header header, decode_header(bytes, max));
  bytes.remove_prefix(kHeaderSize);
  std::string large;
  if (how == kInMemfd && side_ == Side::kAgent && !datagram.fds.empty()) {
    SBX_ASSIGN(large, read_memfd(datagram.fds.front().get(), header.length));
    datagram.fds.erase(datagram.fds.begin());
    bytes = large;
  } else if (how != kInline) {
    return Error(Errc::kProtocol, "message of an unknown form");
  }
  if (bytes.size() != header.length) {
    return Error(Errc::kProtocol, "message length does not match its header");
  }
  SBX_ASSIGN(Message message, decode_body(header.type, bytes));
  return Received{std::move(message), std::move(datagram.fds)};
}

bool is_other_side_gone(const Error& error) {
  // ECONNRESET: it left something unread; said once, then EPIPE (unix(7)).
  return error.sys_errno() == EPIPE || error.sys_errno() == ECONNRESET;
}

}  // namespace sbx::ipc
