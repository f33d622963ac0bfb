// Bridge process: see bridge_process.h.
//
// Theory of operation, in the child: 1. die with the parent; 2. a session of its own, signals as
// nobody changed them but SIGPIPE; 3. /dev/null as stdio, so that no pipe of the caller's is held
// open, and nothing else but the four descriptors; 4. no capabilities, no files, few system calls;
// 5. the loop. Orders come over a socket of datagrams, one at a time, and are answered there.
#include "core/backend/vm/bridge_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "core/backend/vm/bridge.h"
#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/confine/caps.h"
#include "core/confine/landlock.h"
#include "core/confine/seccomp.h"
#include "core/ipc/fields.h"

namespace sbx::vm {

namespace {

using ipc::Fields;

constexpr int kWire = 3;
constexpr int kChannel = 4;
constexpr int kControl = 5;
constexpr int kState = 6;
constexpr std::size_t kLongestOrder = 4096;
constexpr std::uint64_t kMaxState = std::uint64_t{512} << 20U;
constexpr Millis kShortly{5000};

Status send_frame(int socket, const Fields& fields) {
  const std::string frame = ipc::encode_frame(fields);
  const ssize_t sent = ::send(socket, frame.data(), frame.size(), MSG_NOSIGNAL);
  return sent < 0 ? Status(sys_error("send to a bridge's process")) : Status();
}

/// One datagram; kNotFound when there is none.
Result<Fields> receive_frame(int socket) {
  std::array<char, kLongestOrder> buffer{};
  const ssize_t size = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (size < 0 && errno == EAGAIN) return Error(Errc::kNotFound, "nothing was said");
  if (size < 0) return sys_error("receive from a bridge's process");
  const auto whole = static_cast<std::size_t>(size);
  const std::string_view bytes(buffer.data(), std::min(whole, buffer.size()));
  if (bytes.size() <= ipc::kFrameLengthSize || whole > buffer.size()) {
    return Error(Errc::kProtocol, "a bridge's process ended or sent rubbish");
  }
  return ipc::decode_frame(bytes.substr(ipc::kFrameLengthSize));
}

// --- the child ---

/// The channel to the supervisor, as an agent has it.
class ChannelLink final : public backend::AgentLink {
 public:
  explicit ChannelLink(UniqueFd socket) : channel_(std::move(socket), ipc::Side::kAgent) {}
  int fd() const override { return channel_.fd(); }
  Status send(const ipc::Message& message, std::span<const int> fds) override {
    return channel_.send(message, fds);
  }
  Result<ipc::Received> receive() override { return channel_.receive(ipc::Wait::kNo); }

 private:
  ipc::Channel channel_;
};

Status keep_only(std::span<const UniqueFd> fds) {
  constexpr int kAside = 16;
  SBX_ASSIGN(UniqueFd null, sys::open("/dev/null", O_RDWR));
  std::vector<UniqueFd> aside;
  for (const UniqueFd& fd : fds) {
    SBX_ASSIGN(UniqueFd copy, sys::dup(fd.get(), kAside));
    aside.push_back(std::move(copy));
  }
  SBX_ASSIGN(UniqueFd null_copy, sys::dup(null.get(), kAside));
  for (int i = 0; i < kWire; ++i) {
    SBX_TRY(sys::dup_onto(null_copy.get(), i, false));
  }
  int place = kWire;
  for (const UniqueFd& fd : aside) {
    SBX_TRY(sys::dup_onto(fd.get(), place++, true));
  }
  SBX_TRY(sys::close_range(static_cast<unsigned>(place), ~0U));
  for (UniqueFd* fd : {&null, &null_copy}) {
    (void)fd->release();
  }
  for (UniqueFd& fd : aside) {
    (void)fd.release();
  }
  return {};
}

Status confine() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  const rlimit no_core{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &no_core);
  SBX_TRY(sys::prctl("set no_new_privs", PR_SET_NO_NEW_PRIVS, 1));
  // A plain user may not change the bounding set, which no_new_privs makes meaningless.
  const int dropped = confine::drop_all_caps_in_child(0);
  if (dropped != 0 && (dropped != EPERM || ::geteuid() == 0)) {
    return sys_error("drop capabilities", dropped);
  }
  SBX_TRY(sys::prctl("make the bridge undumpable", PR_SET_DUMPABLE, 0));
  const int files_shut = confine::landlock_only_beneath_in_child({}, {});
  if (files_shut != 0 && files_shut != EOPNOTSUPP) return sys_error("apply Landlock", files_shut);
  const int filter = confine::install_seccomp_in_child(confine::SeccompProfile::kDefault);
  return filter == 0 ? Status() : Status(sys_error("install the system call filter", filter));
}

/// Writes the state where the parent reads it.
Status leave_state(const std::string& state) {
  if (state.size() > kMaxState) return Error(Errc::kLimit, "too many bytes are under way");
  SBX_TRY(sys::ftruncate(kState, Bytes{0}));
  if (::lseek(kState, 0, SEEK_SET) != 0) return sys_error("seek in a bridge's state");
  return sys::write_all(kState, state);
}

class Server {
 public:
  explicit Server(BridgeOptions options)
      : local_(UniqueFd(kChannel)),
        bridge_(
            loop_,
            ipc::Side::kHost,
            UniqueFd(kWire),
            local_,
            [this](const Status& status) { ended(status); },
            std::move(options)),
        control_(loop_.add_fd(kControl, EPOLLIN, [this](std::uint32_t) { serve(); })) {}

  void run() { (void)loop_.run(); }

 private:
  void serve() {
    const auto order = receive_frame(kControl);
    if (!order.ok()) {
      if (order.error().code() != Errc::kNotFound) control_.remove();
      return;
    }
    if (order.value().op() == "resume") {
      bridge_.resume(static_cast<std::uint32_t>(order.value().number("epoch")));
      (void)send_frame(kControl, Fields("resume"));
      return;
    }
    if (order.value().op() != "rest") return;
    const auto total = static_cast<std::uint64_t>(order.value().number("written"));
    bridge_.drain_wire(total, [this](const Status& status) {
      if (!status.ok()) return answer(ipc::error_fields(status.error()));
      bridge_.quiesce([this](std::uint64_t written) { rest(written); });
    });
  }

  void rest(std::uint64_t written) {
    auto state = bridge_.state();
    Status left = state.ok() ? leave_state(state.value()) : Status(state.error());
    if (!left.ok()) return answer(ipc::error_fields(left.error()));
    answer(Fields("rest").set("written", static_cast<std::int64_t>(written)));
  }

  static void answer(const Fields& fields) { (void)send_frame(kControl, fields); }

  void ended(const Status& status) {
    answer(status.ok() ? Fields("end") : ipc::error_fields(status.error()).set("end", true));
    loop_.stop();
  }

  Loop loop_;
  ChannelLink local_;
  Bridge bridge_;
  Watch control_;
};

[[noreturn]] void run_bridge(pid_t parent, std::span<const UniqueFd> fds, BridgeOptions options) {
  die_with_parent_in_child(parent);
  (void)::setsid();
  (void)reset_signals_in_child();
  (void)::signal(SIGPIPE, SIG_IGN);
  if (!keep_only(fds).ok()) ::_exit(1);
  if (const Status confined = confine(); !confined.ok()) {
    (void)send_frame(kControl, ipc::error_fields(confined.error()).set("end", true));
    ::_exit(1);
  }
  die_with_parent_in_child(parent);  // a change of credentials may have undone it
  {
    Server server(std::move(options));
    server.run();
  }
  ::_exit(0);
}

}  // namespace

// --- the parent ---

Result<BridgeProcess> start_bridge(UniqueFd wire, std::uint32_t epoch, std::string state) {
  SBX_ASSIGN(sys::SocketPair channel, sys::socketpair_seqpacket());
  SBX_ASSIGN(sys::SocketPair control, sys::socketpair_seqpacket());
  SBX_ASSIGN(UniqueFd memory, sys::memfd_create("sbx-bridge-state"));
  BridgeOptions options;
  options.epoch = epoch;
  options.state = std::move(state);
  const pid_t parent = ::getpid();
  SBX_ASSIGN(UniqueFd memory_copy, sys::dup(memory.get(), 3));
  const std::array<UniqueFd, 4> fds{
      std::move(wire), std::move(channel.b), std::move(control.b), std::move(memory_copy)};
  SBX_ASSIGN(Forked forked, fork_pidfd());
  if (forked.pid == 0) run_bridge(parent, fds, std::move(options));
  return BridgeProcess(ChildProcess(forked.pid, std::move(forked.pidfd)),
                       std::move(channel.a),
                       std::move(control.a),
                       std::move(memory));
}

/// Sends an order and waits for its answer.
Result<Fields> BridgeProcess::ask(const Fields& order, Millis timeout) {
  SBX_TRY(send_frame(control_.get(), order));
  std::array<pollfd, 1> polled{{{control_.get(), POLLIN, 0}}};
  SBX_ASSIGN(const int ready, sys::poll(polled, timeout));
  if (ready == 0) return Error(Errc::kTimeout, "the bridge to the guest does not come to rest");
  SBX_ASSIGN(Fields answer, receive_frame(control_.get()));
  if (auto error = ipc::error_of(answer); error.has_value()) {
    if (answer.flag("end")) result_ = Status(*error);
    return *std::move(error);
  }
  if (answer.op() == "end") {
    result_ = Status();
    return Error(Errc::kNotFound, "the sandbox has ended");
  }
  return answer;
}

Result<BridgeRest> BridgeProcess::rest(std::uint64_t guest_written, Millis timeout) {
  Fields order("rest");
  order.set("written", static_cast<std::int64_t>(guest_written));
  SBX_ASSIGN(const Fields answer, ask(order, timeout));
  BridgeRest rest;
  rest.written = static_cast<std::uint64_t>(answer.number("written"));
  if (::lseek(state_.get(), 0, SEEK_SET) != 0) return sys_error("seek in a bridge's state");
  SBX_ASSIGN(rest.state, sys::read_all(state_.get(), Bytes{kMaxState}));
  return rest;
}

Status BridgeProcess::resume(std::uint32_t epoch) {
  SBX_ASSIGN(const Fields answer,
             ask(Fields("resume").set("epoch", std::int64_t{epoch}), kShortly));
  return {};
}

std::optional<Status> BridgeProcess::result() {
  const auto ended = process_.try_wait();
  if (ended.ok() && !ended.value().has_value()) return std::nullopt;
  if (!result_.has_value()) {
    const auto said = receive_frame(control_.get());
    if (!said.ok()) {
      result_ = Status(Error(Errc::kInternal, "the bridge to the guest was killed"));
    } else if (auto error = ipc::error_of(said.value()); error.has_value()) {
      result_ = Status(*std::move(error));
    } else {
      result_ = Status();
    }
  }
  return result_;
}

Result<bool> BridgeProcess::wait(Millis timeout) {
  if (result_.has_value()) return true;
  std::array<pollfd, 1> polled{{{process_.pidfd(), POLLIN, 0}}};
  SBX_ASSIGN(const int ready, sys::poll(polled, timeout));
  return ready > 0 && result().has_value();
}

}  // namespace sbx::vm
