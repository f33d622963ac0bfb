// Loop: the epoll set and the tables behind Watch.
//
// Theory of operation: one turn of run()
//   1. timers    all that are due now, oldest deadline first; those added meanwhile wait a turn.
//   2. waiting   epoll_wait until the next deadline; not at all while an always-ready file is
//   armed.
//   3. files     each always-ready watch once, so that none can starve the others.
//   4. events    each ready descriptor once, to each of its watches. At most kBatch a turn; the
//                kernel puts descriptors that stay ready at the end of its list, so all get a turn.
// A callback may remove anything: an Entry that is no longer armed is skipped, and the tables are
// cleaned only between callbacks' copies, never under an iterator in use.
#include "core/base/loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"

namespace sbx {
namespace {

constexpr std::size_t kBatch = 64;

enum class Kind : std::uint8_t { kFd, kTimer, kSignal };

}  // namespace

struct Watch::Entry {
  std::weak_ptr<Loop::State> loop;
  Kind kind = Kind::kFd;
  bool armed = true;
  int fd = -1;               // kFd
  std::uint32_t events = 0;  // kFd
  bool one_shot = false;     // kFd
  int signo = 0;             // kSignal
  std::int64_t due_ns = 0;   // kTimer
  std::function<void(std::uint32_t)> on_fd;
  std::function<void()> on_timer;
  std::function<void(const signalfd_siginfo&)> on_signal;
};

struct Loop::State {
  using EntryPtr = std::shared_ptr<Watch::Entry>;

  /// A descriptor in the epoll set, with the watches that share it.
  struct Source {
    std::uint64_t id = 0;  // what epoll gives back: never reused, unlike descriptor numbers
    std::uint32_t mask = 0;
    bool is_file = false;  // epoll refused it: always ready
    std::vector<EntryPtr> entries;
  };

  UniqueFd epoll;
  std::map<int, Source> sources;
  std::map<std::uint64_t, int> fd_of_id;
  std::uint64_t last_id = 0;
  std::multimap<std::int64_t, EntryPtr> timers;
  std::vector<EntryPtr> signals;
  sigset_t caught{};
  UniqueFd signal_fd;
  Watch signal_watch;
  std::optional<sigset_t> old_mask;
  std::optional<Error> broken;
  bool stopped = false;
  std::size_t files = 0;  // sources that are always ready and armed

  enum class Force : std::uint8_t { kNo, kYes };

  void update(int fd, Force force = Force::kNo);
  void control(int fd, Source& source, std::uint32_t mask);
  void detach(const EntryPtr& entry);
  void fire(const EntryPtr& entry, std::uint32_t events);
  void run_timers();
  void run_files();
  void run_event(std::uint64_t id, std::uint32_t events);
  void read_signals();
  int wait_ms() const;
  bool is_idle() const;
  void fail(std::string what, int err);
};

void Loop::State::fail(std::string what, int err) {
  if (!broken.has_value()) broken = sys_error(std::move(what), err);
}

/// Brings the epoll set in line with the watches of `fd`. Force::kYes asks the kernel even when
/// nothing seems to change: the number may stand for another file than before.
void Loop::State::update(int fd, Force force) {
  const auto at = sources.find(fd);
  if (at == sources.end()) return;
  Source& source = at->second;
  std::uint32_t mask = 0;
  for (const EntryPtr& entry : source.entries) {
    mask |= entry->events;
  }
  if (source.is_file && source.mask != 0) --files;
  if (source.is_file && force == Force::kYes) {
    source.is_file = false;
    source.mask = 0;
  }
  if (source.is_file) {
    if (mask != 0) ++files;
    source.mask = mask;
  } else if (mask != source.mask || force == Force::kYes) {
    control(fd, source, mask);
  }
  if (source.entries.empty()) {
    fd_of_id.erase(source.id);
    sources.erase(at);
  }
}

void Loop::State::control(int fd, Source& source, std::uint32_t mask) {
  if (mask == 0) {
    // Out of the set: with an empty mask EPOLLHUP would still come, and without pause.
    // EBADF and ENOENT: closed before its watch; the kernel has forgotten it.
    ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
    source.mask = 0;
    return;
  }
  if (!epoll.valid()) epoll.reset(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = mask;
  event.data.u64 = source.id;
  int op = source.mask == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  int value = ::epoll_ctl(epoll.get(), op, fd, &event);
  if (value == -1 && errno == ENOENT && op == EPOLL_CTL_MOD) {
    // The number was closed and opened anew behind our back.
    op = EPOLL_CTL_ADD;
    value = ::epoll_ctl(epoll.get(), op, fd, &event);
  }
  const int err = errno;
  if (value == 0) {
    source.mask = mask;
  } else if (err == EPERM) {
    source.is_file = true;  // regular files and directories (epoll_ctl(2))
    source.mask = mask;
    ++files;
  } else {
    fail(text::cat("watch descriptor ", fd), err);
  }
}

/// Takes a disarmed entry out of its table.
void Loop::State::detach(const EntryPtr& entry) {
  const auto is_it = [&](const EntryPtr& other) { return other == entry; };
  if (entry->kind == Kind::kSignal) {
    std::erase_if(signals, is_it);
    return;
  }
  if (entry->kind == Kind::kTimer) {
    const auto [first, last] = timers.equal_range(entry->due_ns);
    for (auto at = first; at != last; ++at) {
      if (at->second != entry) continue;
      timers.erase(at);
      return;
    }
    return;
  }
  const auto at = sources.find(entry->fd);
  if (at == sources.end()) return;
  std::erase_if(at->second.entries, is_it);
  update(entry->fd);
}

void Loop::State::fire(const EntryPtr& entry, std::uint32_t events) {
  if (!entry->armed) return;
  if (entry->one_shot) {
    entry->armed = false;
    detach(entry);
  }
  entry->on_fd(events);
}

void Loop::State::run_timers() {
  const std::int64_t now = monotonic_ns();
  std::vector<EntryPtr> due;
  for (const auto& [when, entry] : timers) {
    if (when > now) break;
    due.push_back(entry);
  }
  for (const EntryPtr& entry : due) {
    if (stopped) return;
    if (!entry->armed) continue;
    entry->armed = false;
    detach(entry);
    entry->on_timer();
  }
}

void Loop::State::run_files() {
  if (files == 0) return;
  std::vector<EntryPtr> ready;
  for (const auto& [fd, source] : sources) {
    if (!source.is_file) continue;
    for (const EntryPtr& entry : source.entries) {
      if (entry->events != 0) ready.push_back(entry);
    }
  }
  for (const EntryPtr& entry : ready) {
    if (stopped) return;
    const std::uint32_t events = entry->events & (EPOLLIN | EPOLLOUT);
    if (events != 0) fire(entry, events);
  }
}

void Loop::State::run_event(std::uint64_t id, std::uint32_t events) {
  const auto at = fd_of_id.find(id);
  if (at == fd_of_id.end()) return;  // removed by an earlier callback of this turn
  const std::vector<EntryPtr> entries = sources.at(at->second).entries;
  for (const EntryPtr& entry : entries) {
    if (stopped) return;
    if (!entry->armed || entry->events == 0) continue;
    const std::uint32_t mine = events & (entry->events | EPOLLHUP | EPOLLERR);
    if (mine != 0) fire(entry, mine);
  }
}

void Loop::State::read_signals() {
  while (!stopped) {
    signalfd_siginfo info{};
    const ssize_t size = ::read(signal_fd.get(), &info, sizeof info);
    if (size == -1 && errno == EINTR) continue;
    if (size != static_cast<ssize_t>(sizeof info)) return;  // EAGAIN: none left
    const std::vector<EntryPtr> entries = signals;
    for (const EntryPtr& entry : entries) {
      if (stopped) return;
      if (entry->armed && std::cmp_equal(entry->signo, info.ssi_signo)) entry->on_signal(info);
    }
  }
}

/// How long epoll may sleep: rounded up, so that a timer is due when it returns; -1 without limit.
int Loop::State::wait_ms() const {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  if (files != 0) return 0;
  if (timers.empty()) return -1;
  const std::int64_t left = timers.begin()->first - monotonic_ns();
  if (left <= 0) return 0;
  return static_cast<int>(std::min<std::int64_t>((left - 1) / kNsPerMs + 1, INT_MAX));
}

bool Loop::State::is_idle() const {
  if (!timers.empty() || files != 0) return false;
  return std::ranges::all_of(sources, [](const auto& item) { return item.second.mask == 0; });
}

// --- Watch ---

Watch::Watch(Watch&& other) noexcept : entry_(std::move(other.entry_)) {}

Watch& Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    remove();
    entry_ = std::move(other.entry_);
  }
  return *this;
}

void Watch::remove() {
  // First out of this object: what the callback holds may be destroyed below, this Watch included.
  const std::shared_ptr<Entry> entry = std::move(entry_);
  if (entry == nullptr || !entry->armed) return;
  entry->armed = false;
  if (const std::shared_ptr<Loop::State> loop = entry->loop.lock()) loop->detach(entry);
}

bool Watch::active() const {
  return entry_ != nullptr && entry_->armed && !entry_->loop.expired();
}

void Watch::set_events(std::uint32_t events) {
  if (!active() || entry_->kind != Kind::kFd || entry_->events == events) return;
  entry_->events = events;
  entry_->loop.lock()->update(entry_->fd);
}

// --- Loop ---

Loop::Loop() : state_(std::make_shared<State>()) {
  sigemptyset(&state_->caught);
}

Loop::~Loop() {
  if (state_->old_mask.has_value()) {
    ::pthread_sigmask(SIG_SETMASK, &*state_->old_mask, nullptr);
  }
  state_->stopped = true;  // for a run() that is on the stack
  // Callbacks may own watches of this loop: they must find it gone, not half destroyed.
  const std::shared_ptr<State> dying = std::move(state_);
}

Watch Loop::add_fd(int fd, std::uint32_t events, std::function<void(std::uint32_t)> ready) {
  auto entry = std::make_shared<Watch::Entry>();
  entry->loop = state_;
  entry->fd = fd;
  entry->events = events;
  entry->on_fd = std::move(ready);
  State::Source& source = state_->sources[fd];
  if (source.id == 0) {
    source.id = ++state_->last_id;
    state_->fd_of_id[source.id] = fd;
  }
  source.entries.push_back(entry);
  state_->update(fd, State::Force::kYes);
  return Watch(std::move(entry));
}

Watch Loop::add_pidfd(int pidfd, std::function<void()> ended) {
  Watch watch = add_fd(pidfd, EPOLLIN, [ended = std::move(ended)](std::uint32_t) { ended(); });
  watch.entry_->one_shot = true;  // it stays readable for ever
  return watch;
}

Watch Loop::add_timer(Millis from_now, std::function<void()> due) {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  auto entry = std::make_shared<Watch::Entry>();
  entry->loop = state_;
  entry->kind = Kind::kTimer;
  entry->on_timer = std::move(due);
  std::int64_t ns = 0;
  const bool is_too_far =
      __builtin_mul_overflow(std::max<std::int64_t>(from_now.v, 0), kNsPerMs, &ns) ||
      __builtin_add_overflow(ns, monotonic_ns(), &entry->due_ns);
  if (is_too_far) entry->due_ns = INT64_MAX;  // 292 years
  state_->timers.emplace(entry->due_ns, entry);
  return Watch(std::move(entry));
}

Result<Watch> Loop::add_signal(int signo, std::function<void(const signalfd_siginfo&)> caught) {
  sigset_t one;
  sigemptyset(&one);
  if (sigaddset(&one, signo) == -1) return sys_error(text::cat("catch signal ", signo));
  sigaddset(&state_->caught, signo);
  const int fd = ::signalfd(state_->signal_fd.get(), &state_->caught, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd == -1) return sys_error(text::cat("catch signal ", signo));
  if (!state_->signal_fd.valid()) {
    state_->signal_fd.reset(fd);
    State* state = state_.get();
    state_->signal_watch = add_fd(fd, EPOLLIN, [state](std::uint32_t) { state->read_signals(); });
  }
  sigset_t old;
  if (const int err = ::pthread_sigmask(SIG_BLOCK, &one, &old); err != 0) {
    return sys_error(text::cat("block signal ", signo), err);
  }
  if (!state_->old_mask.has_value()) state_->old_mask = old;
  auto entry = std::make_shared<Watch::Entry>();
  entry->loop = state_;
  entry->kind = Kind::kSignal;
  entry->signo = signo;
  entry->on_signal = std::move(caught);
  state_->signals.push_back(entry);
  return Watch(std::move(entry));
}

Status Loop::run() {
  // A callback may destroy the loop; what it runs on stays until this returns.
  const std::shared_ptr<State> state = state_;
  std::array<epoll_event, kBatch> events{};
  while (true) {
    if (state->broken.has_value()) return *std::exchange(state->broken, std::nullopt);
    if (!state->stopped) state->run_timers();
    if (std::exchange(state->stopped, false)) return {};
    if (state->is_idle()) return Error(Errc::kInternal, "the event loop has nothing to wait for");
    if (!state->epoll.valid()) state->epoll.reset(::epoll_create1(EPOLL_CLOEXEC));
    const int ready = ::epoll_wait(
        state->epoll.get(), events.data(), static_cast<int>(events.size()), state->wait_ms());
    if (ready == -1 && errno != EINTR) return sys_error("wait for events");
    state->run_files();
    for (int i = 0; i < ready && !state->stopped; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      state->run_event(event.data.u64, event.events);
    }
  }
}

void Loop::stop() {
  state_->stopped = true;
}

}  // namespace sbx
