// Bridge messages: what the two sides say, and the streams behind the descriptors in it.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <utility>

#include "core/backend/vm/bridge_impl.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

/// Most messages of the local side in one turn.
constexpr int kMessagesPerTurn = 16;
/// While so much waits for the local side, the wire is not read.
constexpr std::size_t kMostIncoming = std::size_t{1} << 20U;
/// What an entry takes besides its text.
constexpr std::size_t kEntrySize = 256;

bool is_null_device(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3);
}

Error broken(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("wire of the guest: ", what));
}

}  // namespace

/// Of an exec, a copy, or the start of one.
std::uint32_t Bridge::Impl::id_of(const ipc::Message& message) {
  if (const auto* exec = std::get_if<ipc::Exec>(&message)) return exec->id;
  if (const auto* files = std::get_if<ipc::Files>(&message)) return files->id;
  if (const auto* started = std::get_if<ipc::Started>(&message)) return started->id;
  return 0;
}

// --- the local side ---

void Bridge::Impl::update_local() {
  if (is_over || is_local_shut) return;
  std::uint32_t events = 0;
  if (!is_local_over && !is_paused) events |= EPOLLIN;
  if (!incoming.empty() && !is_local_over) events |= EPOLLOUT;
  local_watch.set_events(events);
}

void Bridge::Impl::on_local(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) flush_local();
  if (is_over) return;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !is_paused) read_local();
}

void Bridge::Impl::read_local() {
  for (int i = 0; i < kMessagesPerTurn && !is_local_over && !is_over; ++i) {
    auto received = local.receive();
    if (!received.ok()) {
      if (received.error().code() == Errc::kNotFound) return;
      return local_ended();
    }
    const Status taken = take_local(std::move(received).value());
    if (!taken.ok()) return fail(taken.error());
  }
}

/// The supervisor has gone, or the jail has ended.
void Bridge::Impl::local_ended() {
  if (is_local_over) return;
  is_local_over = true;
  is_ending_due = true;
  incoming.clear();  // nobody takes them
  incoming_size = 0;
  update_local();
  wire.set_reading(true);
  wire.wake();
  check_soon();
}

Status Bridge::Impl::take_local(ipc::Received received) {
  if (has_peer_end || is_wire_over) return {};
  if (!ipc::may_send(side, received.message)) {
    return Error(Errc::kProtocol, "a message that does not go over the wire of a guest");
  }
  note_signal(received.message);
  if (std::holds_alternative<ipc::Exec>(received.message) ||
      std::holds_alternative<ipc::Files>(received.message)) {
    return take_local_start(received);
  }
  if (std::holds_alternative<ipc::Exited>(received.message)) {
    pass_exited(std::move(received.message));
    return {};
  }
  std::vector<ipc::Port> ports;
  const bool is_ready = std::holds_alternative<ipc::Ready>(received.message);
  if (is_ready && !received.fds.empty() && options.on_work_dir) {
    options.on_work_dir(std::move(received.fds.front()));
  }
  if (std::holds_alternative<ipc::Started>(received.message)) take_started(received, ports);
  if (const auto* failed = std::get_if<ipc::ExecFailed>(&received.message)) {
    const auto found = execs.find(failed->id);
    if (found != execs.end()) found->second.has_exited = true;
  }
  queue(received.message, ports);
  if (outgoing_size > kMaxQueued) {
    return Error(Errc::kLimit, "the other side of the wire does not take its messages");
  }
  return {};
}

/// The host's supervisor starts something.
Status Bridge::Impl::take_local_start(ipc::Received& received) {
  const auto flows = ipc::flows_of(received.message, received.fds.size());
  if (!flows.has_value() || streams.size() + received.fds.size() > kMaxStreams) {
    const char* const why = flows.has_value() ? "too many streams at the same time"
                                              : "a program or a copy without its descriptors";
    give(ipc::ExecFailed{id_of(received.message), false, why, 0}, {});
    return {};
  }
  note_exec(received.message);
  std::vector<ipc::Port> ports;
  for (std::size_t i = 0; i < received.fds.size(); ++i) {
    UniqueFd& fd = received.fds[i];
    if ((*flows)[i] == ipc::Flow::kToGuest && is_null_device(fd.get())) {
      ports.push_back({0, ipc::Flow::kNull});
      continue;
    }
    last_own += 2;
    ports.push_back({last_own, (*flows)[i]});
    add_stream(ports.back(), id_of(received.message), i).attach({std::move(fd), false});
  }
  queue(received.message, ports);
  if (outgoing_size > kMaxQueued) {
    return Error(Errc::kLimit, "the guest does not take its messages");
  }
  return {};
}

/// The guest's agent has started a program; with a terminal its master came along.
void Bridge::Impl::take_started(ipc::Received& received, std::vector<ipc::Port>& ports) {
  const std::uint32_t id = id_of(received.message);
  note_exec(received.message);
  const auto found = execs.find(id);
  const bool has_terminal = found != execs.end() && found->second.has_terminal;
  if (received.fds.empty() || !has_terminal) return;
  last_own = last_own == 0 ? 1 : last_own + 2;
  ports.push_back({last_own, ipc::Flow::kBoth});
  add_stream(ports.back(), id, 0).attach({std::move(received.fds.front()), true});
}

Stream& Bridge::Impl::add_stream(const ipc::Port& port, std::uint32_t exec, std::size_t index) {
  LiveStream state;
  state.number = port.stream;
  state.exec = exec;
  state.index = static_cast<std::uint8_t>(index);
  state.flow = port.flow;
  state.credit = state.window = ipc::kWindow;
  auto stream = std::make_unique<Stream>(loop, *this, side, std::move(state));
  return *(streams[port.stream] = std::move(stream));
}

void Bridge::Impl::queue(const ipc::Message& message, std::span<const ipc::Port> ports) {
  Outgoing out;
  out.bytes = ipc::pack_parcel(message, ports);
  for (const ipc::Port& port : ports) {
    if (port.stream != 0) out.streams.push_back(port.stream);
  }
  outgoing_size += out.bytes.size();
  outgoing.push_back(std::move(out));
  wire.wake();
}

void Bridge::Impl::give(ipc::Message message, std::vector<UniqueFd> fds) {
  if (is_local_over) return;
  const std::size_t size = kEntrySize + ipc::encode_body(message).size();
  incoming_size += size;
  incoming.push_back({std::move(message), std::move(fds), size});
  flush_local();
  if (incoming_size > kMostIncoming) wire.set_reading(false);
}

/// send() blocks where there is no room, so it is asked for first.
void Bridge::Impl::flush_local() {
  while (!incoming.empty()) {
    pollfd room{.fd = local.fd(), .events = POLLOUT, .revents = 0};
    if (::poll(&room, 1, 0) <= 0 || (room.revents & (POLLOUT | POLLHUP | POLLERR)) == 0) break;
    Incoming& next = incoming.front();
    std::vector<int> fds;
    for (const UniqueFd& fd : next.fds) {
      fds.push_back(fd.get());
    }
    const Status sent = local.send(next.message, fds);
    // One that has gone is found out by what it said last.
    if (!sent.ok() && !ipc::is_other_side_gone(sent.error())) return fail(sent.error());
    incoming_size -= next.size;
    incoming.pop_front();
    if (incoming.empty()) check_soon();
  }
  if (incoming_size <= kMostIncoming) wire.set_reading(true);
  update_local();
}

// --- messages of the wire ---

/// Each number is new, and of the side that made it.
Status Bridge::Impl::check_ports(const ipc::Parcel& parcel) {
  for (const ipc::Port& port : parcel.ports) {
    if (port.flow == ipc::Flow::kNull) continue;
    const bool is_of_peer = (port.stream % 2 == 1) == is_host();
    if (!is_of_peer || port.stream <= last_peer) return broken("a stream of a wrong number");
    last_peer = port.stream;
  }
  if (streams.size() + parcel.ports.size() > kMaxStreams) return broken("too many streams");
  return {};
}

Status Bridge::Impl::take_parcel(ipc::Parcel parcel) {
  SBX_TRY(check_ports(parcel));
  note_signal(parcel.message);
  std::vector<UniqueFd> inner;
  if (std::holds_alternative<ipc::Started>(parcel.message)) {
    SBX_TRY(open_terminal(parcel, inner));
    note_exec(parcel.message);
  } else if (const auto* failed = std::get_if<ipc::ExecFailed>(&parcel.message)) {
    const auto found = execs.find(failed->id);
    if (found != execs.end()) found->second.has_exited = true;
    check_soon();
  } else if (std::holds_alternative<ipc::Exited>(parcel.message)) {
    pass_exited(std::move(parcel.message));
    return {};
  } else if (!parcel.ports.empty()) {
    note_exec(parcel.message);
    const Status opened = open_guest_ends(parcel, inner);
    if (!opened.ok()) {
      const Error& error = opened.error();
      const std::uint32_t id = id_of(parcel.message);
      execs[id].has_exited = true;
      queue(ipc::ExecFailed{id, false, error.message(), error.sys_errno()}, {});
      return {};
    }
  } else {
    note_exec(parcel.message);
  }
  give(std::move(parcel.message), std::move(inner));
  return {};
}

/// Pipes for a program or a copy in the guest. When one cannot be made, all streams end.
Status Bridge::Impl::open_guest_ends(ipc::Parcel& parcel, std::vector<UniqueFd>& inner) {
  std::optional<backend::User> owner;
  if (const auto* exec = std::get_if<ipc::Exec>(&parcel.message); exec && options.stream_owner) {
    std::optional<backend::User> user;
    if (exec->has_user) user = backend::User{exec->uid, exec->gid};
    owner = options.stream_owner(user);
  }
  Status status;
  const auto open = [&](ipc::Flow flow, UniqueFd& ours) -> Status {
    if (flow == ipc::Flow::kNull) {
      SBX_ASSIGN(UniqueFd null, sys::open("/dev/null", O_RDONLY));
      inner.push_back(std::move(null));
      return {};
    }
    SBX_ASSIGN(sys::Pipe pipe, sys::pipe());
    if (owner.has_value()) SBX_TRY(sys::fchown(pipe.r.get(), owner->uid, owner->gid));
    const bool is_in = flow == ipc::Flow::kToGuest;
    inner.push_back(std::move(is_in ? pipe.r : pipe.w));
    ours = std::move(is_in ? pipe.w : pipe.r);
    return {};
  };
  for (std::size_t i = 0; i < parcel.ports.size(); ++i) {
    const ipc::Port& port = parcel.ports[i];
    UniqueFd ours;
    if (status.ok()) status = open(port.flow, ours);
    if (port.flow == ipc::Flow::kNull) continue;
    Stream& stream = add_stream(port, id_of(parcel.message), i);
    stream.attach({std::move(ours), false});
    stream.activate();
  }
  return status;
}

/// The host's end of a terminal.
Status Bridge::Impl::open_terminal(const ipc::Parcel& parcel, std::vector<UniqueFd>& inner) {
  if (parcel.ports.empty()) return {};
  const auto found = execs.find(id_of(parcel.message));
  const bool may_have = found != execs.end() && found->second.has_terminal &&
                        found->second.pid == 0 && !found->second.has_exited;
  if (!may_have) return broken("a terminal that nobody asked for");
  auto pair = sys::socketpair_stream();
  UniqueFd ours;
  if (pair.ok()) {
    ours = std::move(pair.value().a);
    inner.push_back(std::move(pair.value().b));
  }
  Stream& stream = add_stream(parcel.ports.front(), found->first, 0);
  stream.attach({std::move(ours), false});
  stream.activate();
  return {};
}

}  // namespace sbx::vm
