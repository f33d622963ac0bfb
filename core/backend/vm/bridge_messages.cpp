// Bridge messages: what the two sides say, and the streams behind the descriptors in it.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
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

std::uint32_t id_of(const ipc::Message& message) {
  if (const auto* exec = std::get_if<ipc::Exec>(&message)) return exec->id;
  if (const auto* files = std::get_if<ipc::Files>(&message)) return files->id;
  if (const auto* started = std::get_if<ipc::Started>(&message)) return started->id;
  return 0;
}

Error broken(std::string_view what) {
  return Error(Errc::kProtocol, text::cat("wire of the guest: ", what));
}

}  // namespace

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
      return local_ended(std::move(received).error());
    }
    const Status taken = take_local(std::move(received).value());
    if (!taken.ok()) return fail(taken.error());
  }
}

/// The supervisor has gone, or the jail has ended.
void Bridge::Impl::local_ended(Error /*error*/) {
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

// --- execs ---

void Bridge::Impl::note_exec(const ipc::Message& message) {
  if (const auto* started = std::get_if<ipc::Started>(&message)) {
    const auto found = execs.find(started->id);
    if (found != execs.end() && found->second.pid == 0) found->second.pid = started->pid;
    return;
  }
  const auto* exec = std::get_if<ipc::Exec>(&message);
  const bool is_worker = std::holds_alternative<ipc::Files>(message);
  if (exec == nullptr && !is_worker) return;
  LiveExec live;
  live.id = id_of(message);
  live.has_terminal = exec != nullptr && exec->tty;
  live.is_worker = is_worker;
  execs[live.id] = live;
}

void Bridge::Impl::note_signal(const ipc::Message& message) {
  const auto* signal = std::get_if<ipc::Signal>(&message);
  if (signal == nullptr) return;
  for (auto& [id, exec] : execs) {
    if (signal->id == 0 || signal->id == id) exec.was_signalled = true;
  }
  if (!holds.empty()) check_soon();
}

/// On once its output has gone before it; see the header of the class.
void Bridge::Impl::pass_exited(ipc::Message message) {
  Hold hold;
  const auto& exited = std::get<ipc::Exited>(message);
  hold.exec = exited.id;
  const auto exec = execs.find(exited.id);
  if (exec != execs.end() && WIFSIGNALED(exited.wait_status)) exec->second.was_signalled = true;
  hold.message = std::move(message);
  for (const auto& [number, stream] : streams) {
    if (stream->exec() != hold.exec) continue;
    Target target{number, 0, stream->times_dry()};
    if (is_host()) {
      target.amount = stream->delivered() + stream->undelivered();
    } else if (stream->sends()) {
      target.amount = stream->sent() + stream->unsent();
      if (!stream->is_sending_over()) on_source(*stream);
    }
    if (!is_met(target)) hold.targets.push_back(target);
  }
  if (hold.targets.empty()) return release(std::move(hold));
  holds.push_back(std::move(hold));
  check_soon();
}

void Bridge::Impl::release(Hold hold) {
  const auto exec = execs.find(hold.exec);
  if (exec != execs.end()) exec->second.has_exited = true;
  if (is_host()) {
    give(std::move(hold.message), {});
  } else {
    queue(hold.message, {});
  }
  check_soon();
}

bool Bridge::Impl::is_met(const Target& target) const {
  const auto found = streams.find(target.stream);
  if (found == streams.end()) return true;
  const Stream& stream = *found->second;
  if (is_host()) return stream.is_delivering_over() || stream.delivered() >= target.amount;
  if (stream.is_sending_over()) return true;
  // What was written to a terminal may still be on its way to the master: reading it finds out.
  if (stream.is_terminal()) return stream.times_dry() > target.times_dry;
  return stream.sent() >= target.amount;
}

bool Bridge::Impl::is_stallable(const Hold& hold) const {
  if (is_local_over || has_peer_ending || is_wire_over) return true;
  const auto exec = execs.find(hold.exec);
  return exec == execs.end() || exec->second.was_signalled;
}

void Bridge::Impl::check_holds() {
  if (is_paused) return;
  bool is_ticking = false;
  std::vector<Hold> met;
  std::erase_if(holds, [&](Hold& hold) {
    std::erase_if(hold.targets, [this](const Target& target) { return is_met(target); });
    if (hold.targets.empty()) {
      met.push_back(std::move(hold));
      return true;
    }
    is_ticking = is_ticking || is_stallable(hold);
    return false;
  });
  for (Hold& hold : met) {
    release(std::move(hold));
  }
  constexpr int kTicks = 2;
  if (is_ticking && !tick_timer.active()) {
    tick_timer = loop.add_timer(Millis{kStallTime.v / kTicks}, [this] { tick(); });
  }
}

/// Gives up on those whose readers do not read.
void Bridge::Impl::tick() {
  std::vector<Hold> stalled;
  std::erase_if(holds, [&](Hold& hold) {
    if (!is_stallable(hold)) return false;
    std::uint64_t progress = 0;
    for (const Target& target : hold.targets) {
      const auto found = streams.find(target.stream);
      if (found == streams.end()) continue;
      progress += found->second->sent() + found->second->delivered();
    }
    hold.idle_ticks = progress == hold.progress ? hold.idle_ticks + 1 : 0;
    hold.progress = progress;
    if (hold.idle_ticks < 2) return false;
    stalled.push_back(std::move(hold));
    return true;
  });
  for (Hold& hold : stalled) {
    release(std::move(hold));
  }
  check_soon();
}

void Bridge::Impl::forget_over() {
  std::erase_if(streams, [](const auto& s) { return s.second->is_over(); });
  std::erase_if(execs, [this](const auto& e) {
    return e.second.has_exited && std::ranges::none_of(streams, [&](const auto& s) {
             return s.second->exec() == e.first;
           });
  });
}

// --- a guest that lived on ---

void Bridge::Impl::restore(const BridgeState& state) {
  last_own = state.last_own;
  last_peer = state.last_peer;
  for (const LiveExec& exec : state.execs) {
    execs[exec.id] = exec;
    restore_exec(exec, state.streams);
  }
  for (const ipc::Message& message : state.held) {
    if (std::holds_alternative<ipc::Exited>(message)) pass_exited(message);
  }
}

/// New local ends for what lives; a copy does not live on.
void Bridge::Impl::restore_exec(const LiveExec& exec, const std::vector<LiveStream>& all) {
  ipc::Running running;
  running.id = exec.id;
  running.pid = exec.pid;
  running.tty = exec.has_terminal;
  running.is_worker = exec.is_worker;
  running.has_exited = exec.has_exited;
  std::vector<UniqueFd> outer;
  std::vector<Stream*> made;
  for (const LiveStream& live : all) {
    if (live.exec != exec.id || streams.contains(live.number)) continue;
    auto& stream = streams[live.number];
    stream = std::make_unique<Stream>(loop, *this, side, live);
    made.push_back(stream.get());
    const bool is_live = !exec.is_worker && (stream->sends() ? !live.is_source_over : false);
    const bool is_read = !exec.is_worker && (stream->receives() ? !live.is_sink_over : false);
    UniqueFd ours;
    if (is_live || is_read) {
      if (live.flow == ipc::Flow::kBoth) {
        if (auto pair = sys::socketpair_stream(); pair.ok()) {
          ours = std::move(pair.value().a);
          outer.push_back(std::move(pair.value().b));
        }
      } else if (auto pipe = sys::pipe(); pipe.ok()) {
        ours = std::move(is_live ? pipe.value().r : pipe.value().w);
        outer.push_back(std::move(is_live ? pipe.value().w : pipe.value().r));
        (live.index == 0   ? running.has_in
         : live.index == 1 ? running.has_out
                           : running.has_err) = true;
      }
    }
    stream->attach({std::move(ours), false});
  }
  give(running, std::move(outer));
  for (Stream* stream : made) {
    stream->activate();
  }
}

}  // namespace sbx::vm
