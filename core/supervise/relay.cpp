// Relay: one direction of one stream, moved without blocking the loop.
//
// Theory of operation
//
// 1. One relay has one source and one sink and waits for exactly one of them at a time: while it
//    waits for room in the sink, the source is not polled, and the other way round.
// 2. Bytes go by splice(2) where both ends allow it (pipe to pipe, pipe to file, file to pipe),
//    else through a buffer. EINVAL from splice (an O_APPEND file) means buffer from then on.
// 3. The loop must never block on a slow reader, or time-outs would not fire. Our own ends are
//    O_NONBLOCK. Borrowed ends are not, and must not become so: the flag belongs to the open file
//    description, which the caller's shell and its other commands share. Instead:
//      pipe      splice(2) with SPLICE_F_NONBLOCK, which covers both pipes whatever their flags;
//                for buffered writes a second description of the same pipe, opened with O_NONBLOCK
//                through /proc/self/fd. Where that is refused (somebody else's pipe): after POLLOUT
//                one write of at most PIPE_BUF bytes, for which a free page is enough (pipe(7)).
//      terminal  the same second description; where refused, small writes after POLLOUT.
//      socket    send(2) and recv(2) with MSG_DONTWAIT.
//      others    files and plain devices never keep a writer waiting for a reader.
//    Borrowed sources are read once per readiness: a read(2) that has something never waits.
// 4. While a sink that somebody reads is idle it is watched for EPOLLERR: the reader's end is
//    passed on at once, by closing the source.
// 5. The source's pipe grows to 1 MiB after 64 KiB, the sink's after 1 MiB: short runs do not pay
//    for it, and the per-user quota (64 such pipes) is not used up by programs that print a page.
//    With both at 1 MiB a bulk writer meets fewer waits than with one default pipe and no relay.
// 6. Once in bulk, an empty source is given 0.1 ms to fill before it is waited for: a program that
//    writes 8 KiB at a time would else cost a wake-up and a splice for each.

#include "core/supervise/relay.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <ctime>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::supervise {

namespace {

constexpr std::size_t kSpliceSize = std::size_t{1} << 20U;
constexpr std::size_t kBufferSize = std::size_t{128} << 10U;
constexpr int kGrownPipe = 1 << 20;
constexpr std::uint64_t kGrowSourceAfter = std::uint64_t{64} << 10U;
constexpr std::uint64_t kGrowSinkAfter = std::uint64_t{1} << 20U;
/// After so many bytes timers and others get their turn.
constexpr std::size_t kBytesPerTurn = std::size_t{4} << 20U;
constexpr std::size_t kCarefulTtyWrite = 256;
constexpr std::uint64_t kLargePiece = std::uint64_t{256} << 10U;
constexpr long kFillPauseNs = 50'000;  // with timer slack 0.1 ms: a program fills half a pipe in it

enum class Kind : std::uint8_t { kPipe, kFile, kTerminal, kSocket, kDevice };

Kind kind_of(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return Kind::kDevice;  // reading or writing it will say what is wrong
  if (S_ISFIFO(st.st_mode)) return Kind::kPipe;
  if (S_ISREG(st.st_mode)) return Kind::kFile;
  if (S_ISSOCK(st.st_mode)) return Kind::kSocket;
  if (S_ISCHR(st.st_mode) && ::isatty(fd) == 1) return Kind::kTerminal;
  return Kind::kDevice;
}

/// What a transfer did. EAGAIN is the normal end of every turn here, hence no Result with text.
struct Moved {
  ssize_t n = -1;
  int err = 0;  // errno when n < 0
  bool would_block() const { return n < 0 && err == EAGAIN; }
};

template <typename Call>
Moved retry(Call call) {
  for (;;) {
    const ssize_t n = call();
    if (n >= 0) return {n, 0};
    if (errno != EINTR) return {-1, errno};
  }
}

/// A second, non-blocking description of a borrowed pipe or terminal; invalid where refused.
UniqueFd reopen_nonblocking(int fd) {
  const std::string path = text::cat("/proc/self/fd/", fd);
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

bool is_ready(int fd, short events) {
  pollfd p{.fd = fd, .events = events, .revents = 0};
  return ::poll(&p, 1, 0) > 0;
}

enum class AtEof : std::uint8_t { kClose, kSendEofCharacter };

}  // namespace

struct Relay::Impl {
  Loop& loop;
  Done done;

  UniqueFd own_source;
  UniqueFd own_sink;
  int source = -1;  // borrowed, or own_source's
  int sink = -1;    // -1: memory
  Kind source_kind = Kind::kDevice;
  Kind sink_kind = Kind::kDevice;
  bool careful = false;  // the sink may block: only small writes, each after POLLOUT
  bool can_splice = false;
  std::uint64_t grow_at = kGrowSourceAfter;
  bool source_done = false;  // what is pending is the last
  AtEof at_eof = AtEof::kClose;

  std::optional<Bytes> limit;
  std::uint64_t total = 0;   // out of the source
  std::uint64_t passed = 0;  // of these, towards the sink
  std::uint64_t total_at_pause = 0;
  bool is_truncated = false;

  std::vector<char> buffer;  // made when first needed
  std::size_t pending_at = 0;
  std::size_t pending_end = 0;
  char last_byte = '\n';
  std::string memory;

  Tap tap;
  std::optional<std::uint64_t> release_at;  // of `total`: then the sink goes
  std::function<void()> on_released;

  RelayState state = RelayState::kRunning;
  std::optional<Error> error;
  Watch source_watch;
  Watch sink_watch;
  Watch soon;

  Impl(Loop& the_loop, Done on_done) : loop(the_loop), done(std::move(on_done)) {}

  void start();
  void pump();
  bool step();
  bool step_splice(std::size_t want);
  bool step_read(std::size_t want);
  bool step_write();
  bool is_bulk() const;
  bool let_source_fill();
  bool at_limit() const { return limit.has_value() && passed >= limit->v; }
  std::size_t allowed(std::size_t want) const;
  Moved read_some(char* to, std::size_t size) const;
  Moved write_some(const char* from, std::size_t size) const;
  void count(std::size_t n);
  void grow();
  bool wait_for_source();
  bool wait_for_sink();
  void watch_sink(std::uint32_t events);
  bool source_ended();
  bool sink_failed(int err);
  void finish(RelayState how);
  void release();
  bool is_to_release() const { return release_at.has_value() && total >= *release_at; }
  void release_sink();
  std::size_t waiting() const;
};

void Relay::Impl::start() {
  if (own_source.valid()) source = own_source.get();
  if (own_sink.valid()) sink = own_sink.get();
  source_kind = kind_of(source);
  if (own_source.valid()) static_cast<void>(sys::set_nonblocking(source, true));
  if (sink >= 0) {
    sink_kind = kind_of(sink);
    const bool waits = sink_kind == Kind::kPipe || sink_kind == Kind::kTerminal;
    if (own_sink.valid()) {
      static_cast<void>(sys::set_nonblocking(sink, true));
    } else if (waits) {
      own_sink = reopen_nonblocking(sink);
      if (own_sink.valid()) sink = own_sink.get();
      careful = !own_sink.valid();
    }
    const bool from_pipe = source_kind == Kind::kPipe;
    const bool to_pipe = sink_kind == Kind::kPipe;
    can_splice = (from_pipe && (to_pipe || sink_kind == Kind::kFile)) ||
                 (source_kind == Kind::kFile && to_pipe);
    if (waits || sink_kind == Kind::kSocket) watch_sink(EPOLLERR);
  }
  source_watch = loop.add_fd(source, EPOLLIN, [this](std::uint32_t /*events*/) { pump(); });
}

void Relay::Impl::pump() {
  const std::uint64_t until = total + kBytesPerTurn;
  while (total < until) {
    if (!step()) return;
  }
}

/// One transfer; false when this turn is over (nothing to do now, or the relay has ended).
bool Relay::Impl::step() {
  if (pending_at < pending_end) return step_write();
  if (is_to_release()) {
    release_sink();
    return false;  // it may have destroyed us
  }
  const bool discards = at_limit();
  if (can_splice && !discards) return step_splice(allowed(kSpliceSize));
  return step_read(discards || sink < 0 ? kBufferSize : allowed(kBufferSize));
}

/// Both pipes have grown: a lot has gone through.
bool Relay::Impl::is_bulk() const {
  return grow_at == std::numeric_limits<std::uint64_t>::max();
}

/// Sleeps for a moment when something came since the last time, but not much of it: a writer of
/// large pieces is better served at once. False when it did not sleep.
bool Relay::Impl::let_source_fill() {
  const std::uint64_t came = total - total_at_pause;
  total_at_pause = total;
  if (came == 0 || came >= kLargePiece) return false;
  const timespec pause{0, kFillPauseNs};
  (void)::nanosleep(&pause, nullptr);
  return true;
}

std::size_t Relay::Impl::allowed(std::size_t want) const {
  if (!limit.has_value()) return want;
  return static_cast<std::size_t>(std::min<std::uint64_t>(want, limit->v - passed));
}

bool Relay::Impl::step_splice(std::size_t want) {
  const Moved moved = retry([&] {
    return ::splice(source, nullptr, sink, nullptr, want, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  });
  if (moved.n > 0) {
    count(static_cast<std::size_t>(moved.n));
    passed += static_cast<std::uint64_t>(moved.n);
    return true;
  }
  if (moved.n == 0) return source_ended();
  if (moved.would_block()) {
    // It does not say which of the two: a source with something to give means a full sink.
    const bool has_data = source_kind == Kind::kFile || is_ready(source, POLLIN);
    if (has_data && !is_ready(sink, POLLOUT)) return wait_for_sink();
    return is_bulk() && let_source_fill() ? true : wait_for_source();
  }
  if (moved.err == EINVAL) {
    can_splice = false;
    return true;
  }
  return sink_failed(moved.err);
}

bool Relay::Impl::step_read(std::size_t want) {
  if (buffer.empty()) buffer.resize(kBufferSize);
  const Moved moved = read_some(buffer.data(), want);
  if (moved.would_block()) return wait_for_source();
  // EIO from a terminal's master: its last slave was closed (pty(7) leaves it to ioctl_tty(2)).
  if (moved.n == 0 || (moved.err == EIO && source_kind == Kind::kTerminal)) return source_ended();
  if (moved.n < 0) {
    error = sys_error("read", moved.err);
    return source_ended();
  }
  const auto n = static_cast<std::size_t>(moved.n);
  count(n);
  if (tap) tap({buffer.data(), n});
  const std::size_t keep = at_limit() ? 0 : allowed(n);
  if (keep < n) is_truncated = true;
  passed += keep;
  if (sink < 0) {
    memory.append(buffer.data(), keep);
  } else if (keep > 0) {
    last_byte = buffer[keep - 1];
    pending_at = 0;
    pending_end = keep;
    return true;
  }
  return own_source.valid();  // a borrowed source is read once per readiness
}

bool Relay::Impl::step_write() {
  if (careful && !is_ready(sink, POLLOUT)) return wait_for_sink();
  std::size_t size = pending_end - pending_at;
  if (careful) {
    size = std::min<std::size_t>(size, sink_kind == Kind::kPipe ? PIPE_BUF : kCarefulTtyWrite);
  }
  const Moved moved = write_some(buffer.data() + pending_at, size);
  if (moved.would_block()) return wait_for_sink();
  if (moved.n < 0) return sink_failed(moved.err);
  pending_at += static_cast<std::size_t>(moved.n);
  if (pending_at < pending_end) return true;
  if (source_done) return source_ended();
  return own_source.valid() ? true : wait_for_source();
}

Moved Relay::Impl::read_some(char* to, std::size_t size) const {
  if (source_kind == Kind::kSocket) {
    return retry([&] { return ::recv(source, to, size, MSG_DONTWAIT); });
  }
  return retry([&] { return ::read(source, to, size); });
}

Moved Relay::Impl::write_some(const char* from, std::size_t size) const {
  if (sink_kind == Kind::kSocket) {
    return retry([&] { return ::send(sink, from, size, MSG_DONTWAIT | MSG_NOSIGNAL); });
  }
  return retry([&] { return ::write(sink, from, size); });
}

void Relay::Impl::count(std::size_t n) {
  total += n;
  if (total >= grow_at) grow();
}

void Relay::Impl::grow() {
  if (grow_at == kGrowSourceAfter) {
    grow_at = kGrowSinkAfter;
    if (own_source.valid() && source_kind == Kind::kPipe) sys::set_pipe_size(source, kGrownPipe);
    return;
  }
  grow_at = std::numeric_limits<std::uint64_t>::max();
  if (sink >= 0 && sink_kind == Kind::kPipe) sys::set_pipe_size(sink, kGrownPipe);
}

bool Relay::Impl::wait_for_source() {
  source_watch.set_events(EPOLLIN);
  if (sink_watch.active()) sink_watch.set_events(EPOLLERR);
  return false;
}

bool Relay::Impl::wait_for_sink() {
  source_watch.set_events(0);
  watch_sink(EPOLLOUT);
  return false;
}

void Relay::Impl::watch_sink(std::uint32_t events) {
  if (sink_watch.active()) {
    sink_watch.set_events(events);
    return;
  }
  sink_watch = loop.add_fd(sink, events, [this](std::uint32_t ready) {
    // While we wait for the source, only the reader's end is news; EPOLLHUP alone is a terminal or
    // a socket that is gone.
    if ((ready & EPOLLOUT) == 0 && (ready & (EPOLLERR | EPOLLHUP)) != 0) {
      finish(RelayState::kSinkClosed);
    } else {
      pump();
    }
  });
}

/// At its end or with `error` set. A terminal has to be told: closing our side says nothing to it.
bool Relay::Impl::source_ended() {
  if (at_eof == AtEof::kSendEofCharacter && !source_done) {
    source_done = true;
    // On a line that is not complete the first one only hands the line over (termios(3), VEOF).
    if (buffer.empty()) buffer.resize(kBufferSize);
    buffer[0] = buffer[1] = '\x04';
    pending_at = 0;
    pending_end = last_byte == '\n' ? 1 : 2;
    return true;
  }
  finish(error.has_value() ? RelayState::kSourceFailed : RelayState::kEof);
  return false;
}

bool Relay::Impl::sink_failed(int err) {
  if (err == EPIPE || err == ECONNRESET) {
    finish(RelayState::kSinkClosed);
    return false;
  }
  error = sys_error("write", err);
  finish(RelayState::kSinkFailed);
  return false;
}

/// Bytes that the source holds now.
std::size_t Relay::Impl::waiting() const {
  int bytes = 0;
  return ::ioctl(source, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

void Relay::Impl::release_sink() {
  release_at.reset();
  sink_watch.remove();
  own_sink.reset();
  sink = -1;
  can_splice = false;
  limit = Bytes{passed};  // nothing more is kept
  source_watch.set_events(EPOLLIN);
  const auto call = std::move(on_released);
  on_released = nullptr;
  if (call) call();  // last: it may destroy us
}

void Relay::Impl::release() {
  source_watch.remove();
  sink_watch.remove();
  soon.remove();
  own_source.reset();
  own_sink.reset();
}

void Relay::Impl::finish(RelayState how) {
  state = how;
  release();
  const Done call = std::move(done);
  done = nullptr;
  if (call) call();  // last: it may destroy us
}

Relay::Relay(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Relay::~Relay() = default;

std::unique_ptr<Relay> Relay::to_fd(
    Loop& loop, UniqueFd source, int sink, std::optional<Bytes> limit, Done done) {
  auto impl = std::make_unique<Impl>(loop, std::move(done));
  impl->own_source = std::move(source);
  impl->sink = sink;
  impl->limit = limit;
  impl->start();
  return std::unique_ptr<Relay>(new Relay(std::move(impl)));
}

std::unique_ptr<Relay> Relay::to_memory(Loop& loop, UniqueFd source, Bytes limit, Done done) {
  auto impl = std::make_unique<Impl>(loop, std::move(done));
  impl->own_source = std::move(source);
  impl->limit = limit;
  impl->start();
  return std::unique_ptr<Relay>(new Relay(std::move(impl)));
}

std::unique_ptr<Relay> Relay::from_fd(Loop& loop, int source, UniqueFd sink, Done done) {
  auto impl = std::make_unique<Impl>(loop, std::move(done));
  impl->source = source;
  impl->own_sink = std::move(sink);
  impl->start();
  return std::unique_ptr<Relay>(new Relay(std::move(impl)));
}

std::unique_ptr<Relay> Relay::from_fd_to_terminal(Loop& loop,
                                                  int source,
                                                  UniqueFd sink,
                                                  Done done) {
  auto impl = std::make_unique<Impl>(loop, std::move(done));
  impl->source = source;
  impl->own_sink = std::move(sink);
  impl->at_eof = AtEof::kSendEofCharacter;
  impl->start();
  return std::unique_ptr<Relay>(new Relay(std::move(impl)));
}

RelayState Relay::state() const {
  return impl_->state;
}
const std::optional<Error>& Relay::error() const {
  return impl_->error;
}
std::uint64_t Relay::bytes() const {
  return impl_->total;
}
bool Relay::truncated() const {
  return impl_->is_truncated;
}
std::string Relay::take_memory() {
  return std::move(impl_->memory);
}

void Relay::set_tap(Tap tap) {
  impl_->tap = std::move(tap);
  impl_->can_splice = false;
}

void Relay::release_sink_when_drained(std::function<void()> then) {
  Impl& impl = *impl_;
  if (impl.state != RelayState::kRunning) return;
  impl.release_at = impl.total + impl.waiting();
  impl.on_released = std::move(then);
  // Nothing may be waiting: then no event would come.
  impl.soon = impl.loop.add_timer(Millis{0}, [&impl] {
    if (impl.is_to_release() && impl.pending_at == impl.pending_end) impl.release_sink();
  });
}

void Relay::drop_sink() {
  if (impl_->state != RelayState::kRunning) return;
  impl_->pending_at = impl_->pending_end = 0;
  impl_->soon.remove();
  impl_->on_released = nullptr;
  impl_->release_sink();
}

void Relay::stop() {
  if (impl_->state != RelayState::kRunning) return;
  impl_->state = RelayState::kStopped;
  impl_->release();
}

}  // namespace sbx::supervise
