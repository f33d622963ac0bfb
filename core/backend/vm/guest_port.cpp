// Guest port: see guest_port.h.
#include "core/backend/vm/guest_port.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/fs.h"
#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::vm {

namespace {

constexpr std::size_t kReadSize = std::size_t{64} << 10;
/// How long to wait for a host that has closed its end, before it is looked for again.
constexpr Millis kAway{100};

}  // namespace

Result<UniqueFd> open_port(std::string_view name) {
  constexpr const char* kPorts = "/sys/class/virtio-ports";
  constexpr Bytes kLongestName{256};
  DIR* list = ::opendir(kPorts);
  if (list == nullptr) return sys_error(text::cat("list ", kPorts));
  std::string found;
  while (const dirent* entry = ::readdir(list)) {  // NOLINT(concurrency-mt-unsafe): one thread
    const std::string port(static_cast<const char*>(entry->d_name));
    const auto said = fs::read_file(text::cat(kPorts, "/", port, "/name"), kLongestName);
    if (said.ok() && text::trim(said.value()) == name) found = port;
  }
  (void)::closedir(list);
  if (found.empty()) return Error(Errc::kNotFound, text::cat("no virtio port ", name));
  return sys::open(text::cat("/dev/", found), O_RDWR | O_NONBLOCK);
}

ControlServer::ControlServer(Loop& loop, UniqueFd port, Answer answer)
    : loop_(loop), port_(std::move(port)), answer_(std::move(answer)) {
  watch(EPOLLIN);
}

void ControlServer::watch(std::uint32_t events) {
  watch_ = loop_.add_fd(port_.get(), events, [this](std::uint32_t ready) { on_ready(ready); });
}

void ControlServer::on_ready(std::uint32_t events) {
  if (!out_.empty()) {
    if ((events & EPOLLOUT) == 0) return wait();
    write();
    if (!out_.empty()) return;
  } else if ((events & EPOLLIN) == 0 || !read()) {
    return wait();
  }
  take_frames();
}

/// The host has closed its end: virtio_console says so without end, and that there is something to
/// be read.
void ControlServer::wait() {
  watch_.remove();
  const std::uint32_t wanted = out_.empty() ? EPOLLIN : EPOLLOUT;
  timer_ = loop_.add_timer(kAway, [this, wanted] { watch(wanted); });
}

/// False when there was nothing.
bool ControlServer::read() {
  const std::size_t before = in_.size();
  in_.resize(before + kReadSize);
  const Result<std::size_t> got = sys::read(port_.get(), in_.data() + before, kReadSize);
  const bool is_later = !got.ok() && got.error().sys_errno() == EAGAIN;
  in_.resize(before + (got.ok() ? got.value() : 0));
  const std::size_t skipped = std::min(skip_, in_.size());
  in_.erase(0, skipped);
  skip_ -= skipped;
  return is_later || (got.ok() && got.value() > 0);
}

void ControlServer::take_frames() {
  is_taking_ = true;
  while (!is_asked_ && out_.empty() && in_.size() >= ipc::kFrameLengthSize) {
    const std::size_t length = ipc::frame_length(in_);
    if (length > ipc::kLongestFrame) {
      skip_ = length - std::min(length, in_.size() - ipc::kFrameLengthSize);
      in_.erase(0, ipc::kFrameLengthSize + length - skip_);
      reply(0, ipc::error_fields(Error(Errc::kLimit, "a request is too long")));
      continue;
    }
    if (in_.size() < ipc::kFrameLengthSize + length) break;
    const auto request =
        ipc::decode_frame(std::string_view(in_).substr(ipc::kFrameLengthSize, length));
    in_.erase(0, ipc::kFrameLengthSize + length);
    if (!request.ok()) {
      reply(0, ipc::error_fields(request.error()));
      continue;
    }
    is_asked_ = true;
    answer_(request.value(), [this, number = request.value().number("seq")](ipc::Fields answer) {
      reply(number, std::move(answer));
    });
  }
  is_taking_ = false;
  if (is_asked_) watch_.set_events(0);
}

void ControlServer::reply(std::int64_t number, ipc::Fields answer) {
  is_asked_ = false;
  answer.set("seq", number);
  out_ = ipc::encode_frame(answer);
  sent_ = 0;
  write();
  if (!is_taking_ && out_.empty()) take_frames();
}

void ControlServer::write() {
  while (sent_ < out_.size()) {
    const auto wrote = sys::write(port_.get(), std::string_view(out_).substr(sent_));
    if (!wrote.ok() && wrote.error().sys_errno() == EAGAIN) return watch_.set_events(EPOLLOUT);
    if (!wrote.ok()) break;  // nobody is there to read it
    sent_ += wrote.value();
  }
  out_.clear();
  watch_.set_events(EPOLLIN);
  if (then_) std::exchange(then_, nullptr)();
}

}  // namespace sbx::vm
