// Control client: see control_client.h.
#include "core/backend/vm/control_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "core/backend/vm/control.h"
#include "core/base/clock.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

constexpr std::size_t kReadSize = std::size_t{64} << 10;
/// What is shown of a guest's own words.
constexpr std::size_t kMostText = 2000;

Error too_late() {
  return Error(Errc::kTimeout, "the guest did not answer in time");
}

std::string printable(std::string text) {
  text.resize(std::min(text.size(), kMostText));
  return text::escape(text);
}

/// The error that the guest reports, without what would be taken for a failure of the connection.
Error reported(const Error& error) {
  const bool is_mistakable = error.code() == Errc::kProtocol || error.code() == Errc::kTimeout;
  return Error(is_mistakable ? Errc::kSystem : error.code(), printable(error.message()))
      .with_hint(printable(error.hint()));
}

/// Waits until the socket can do `events`.
Status wait_for(int fd, short events, Millis until) {
  const std::int64_t left = until.v - monotonic_now().v;
  if (left <= 0) return too_late();
  pollfd entry{fd, events, 0};
  SBX_ASSIGN(const int ready, sys::poll({&entry, 1}, Millis{left}));
  if (ready == 0) return too_late();
  return {};
}

}  // namespace

ControlClient::ControlClient(UniqueFd stream) : stream_(std::move(stream)) {
  if (stream_.valid() && !sys::set_nonblocking(stream_.get(), true).ok()) stream_.reset();
}

Error ControlClient::broken(std::string what) {
  stream_.reset();
  buffer_.clear();
  return Error(Errc::kProtocol, std::move(what));
}

Status ControlClient::send(const std::string& frame, Millis until) {
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = ::send(stream_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return broken("the guest closed its control port");
    if (const Status ready = wait_for(stream_.get(), POLLOUT, until); !ready.ok()) {
      // Half a request cannot be taken back.
      if (rest.size() != frame.size()) (void)broken("");
      return ready;
    }
  }
  return {};
}

/// Adds what has come to the buffer.
Status ControlClient::fill(Millis until) {
  while (true) {
    const std::size_t before = buffer_.size();
    buffer_.resize(before + kReadSize);
    const ssize_t got = ::recv(stream_.get(), buffer_.data() + before, kReadSize, 0);
    const int err = errno;
    buffer_.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got > 0) return {};
    if (got == 0 || (err != EAGAIN && err != EINTR)) {
      return broken("the guest closed its control port");
    }
    if (err == EAGAIN) SBX_TRY(wait_for(stream_.get(), POLLIN, until));
  }
}

Result<ipc::Fields> ControlClient::receive(Millis until) {
  while (true) {
    // Also where a guest sends without end what is of no use.
    if (monotonic_now() >= until) return too_late();
    if (buffer_.size() < ipc::kFrameLengthSize) {
      SBX_TRY(fill(until));
      continue;
    }
    const std::size_t length = ipc::frame_length(buffer_);
    if (length > control::kLongestAnswer) return broken("an answer of the guest is too long");
    const std::size_t whole = ipc::kFrameLengthSize + length;
    if (buffer_.size() < whole) {
      SBX_TRY(fill(until));
      continue;
    }
    Result<ipc::Fields> answer =
        ipc::decode_frame(std::string_view(buffer_).substr(ipc::kFrameLengthSize, length));
    buffer_.erase(0, whole);
    if (!answer.ok()) return broken(text::cat("the guest sent ", answer.error().message()));
    const std::int64_t number = answer.value().number("seq", -1);
    if (number == static_cast<std::int64_t>(sent_)) return answer;
    // An earlier call gave up waiting for it. What nobody asked for is no answer.
    if (number < 1 || number > static_cast<std::int64_t>(sent_)) {
      return broken("the guest answered what it was not asked");
    }
  }
}

Result<ipc::Fields> ControlClient::call(ipc::Fields request, Millis deadline) {
  if (!stream_.valid()) return Error(Errc::kProtocol, "the control port of the guest is closed");
  const Millis until{monotonic_now().v + deadline.v};
  request.set("seq", static_cast<std::int64_t>(++sent_));
  SBX_TRY(send(ipc::encode_frame(request), until));
  SBX_ASSIGN(ipc::Fields answer, receive(until));
  if (const auto error = ipc::error_of(answer)) return reported(*error);
  return answer;
}

}  // namespace sbx::vm
