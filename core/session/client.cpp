// Client: see client.h.
#include "core/session/client.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/host/paths.h"
#include "core/session/daemon.h"

namespace sbx::session {

Result<Client> Client::connect(const Store& store, const Record& record) {
  SBX_ASSIGN(const host::Dir runtime, host::open_runtime_dir());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return sys_error("make a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path =
      text::cat("/proc/self/fd/", runtime.fd.get(), "/", socket_name(store.state_dir(), record));
  if (path.size() >= sizeof address.sun_path) return Error(Errc::kInternal, "a long socket name");
  std::memcpy(static_cast<char*>(address.sun_path), path.c_str(), path.size());
  int done = -1;
  do {
    done = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (done != 0 && errno == EINTR);
  if (done == 0) return Client(std::move(socket), record.name);
  const int error = errno;
  Error failed = sys_error(text::cat("connect to the supervisor of session ", record.name), error);
  if (error == ENOENT || error == ECONNREFUSED) {
    return std::move(failed)
        .with_code(Errc::kNotFound)
        .with_hint(text::cat("its socket is in ",
                             runtime.path,
                             "; a session started with another XDG_RUNTIME_DIR or state directory "
                             "is reached from there"));
  }
  return failed;
}

Status Client::send(Fields fields, std::span<const int> fds) {
  fields.set("protocol", std::int64_t{kControlProtocol});
  return send_frame(socket_.get(), fields, fds);
}

Result<Frame> Client::receive() {
  SBX_ASSIGN(Frame frame, receive_frame(socket_.get(), *reader_));
  if (auto error = error_of(frame.fields)) return *std::move(error);
  return frame;
}

Result<std::optional<Frame>> Client::poll() {
  SBX_ASSIGN(std::optional<Frame> frame, reader_->next(socket_.get()));
  if (frame.has_value()) {
    if (auto error = error_of(frame->fields)) return *std::move(error);
  }
  return frame;
}

Result<Frame> Client::call(Fields fields, std::span<const int> fds, Millis patience) {
  SBX_TRY(send(std::move(fields), fds));
  if (patience.v < 0) return receive();
  const std::int64_t until = monotonic_now().v + patience.v;
  while (true) {
    SBX_ASSIGN(std::optional<Frame> frame, poll());
    if (frame.has_value()) return *std::move(frame);
    const Millis left{until - monotonic_now().v};
    std::array<pollfd, 1> polled{{{socket_.get(), POLLIN, 0}}};
    SBX_ASSIGN(const int ready, sys::poll(polled, {std::max<std::int64_t>(left.v, 0)}));
    if (ready > 0 || left.v > 0) continue;
    return Error(Errc::kTimeout,
                 text::cat("the supervisor of session ", session_, " does not answer"))
        .with_hint(text::cat("sbx session stop ", session_, "; its files are kept"));
  }
}

Result<bool> Client::wait_for_close(Millis patience) {
  const std::int64_t until = monotonic_now().v + patience.v;
  while (true) {
    const Millis left{std::max<std::int64_t>(0, until - monotonic_now().v)};
    std::array<pollfd, 1> polled{{{socket_.get(), POLLIN, 0}}};
    SBX_ASSIGN(const int ready, sys::poll(polled, left));
    if (ready == 0) return false;
    if (!reader_->next(socket_.get()).ok()) return true;
  }
}

}  // namespace sbx::session
