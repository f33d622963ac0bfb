// Data stream: see data_stream.h.
#include "core/backend/vm/data_stream.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/image/worker.h"

namespace sbx::vm {

namespace {

constexpr std::size_t kLengthSize = 4;
constexpr unsigned kBitsPerByte = 8;
constexpr Millis kSlice{200};
constexpr std::size_t kLongestWords = 4096;

/// Waits until `fd` can be read or written.
Status wait_for(int fd, short events, const ShouldStop& stop) {
  while (true) {
    if (stop && stop()) return sys_error("copy files of the guest", EINTR);
    std::array<pollfd, 1> polled{{{fd, events, 0}}};
    SBX_TRY(sys::poll(polled, kSlice));
    if (polled[0].revents != 0) return {};
  }
}

Status write_to(int fd, std::string_view bytes, const ShouldStop& stop) {
  while (!bytes.empty()) {
    SBX_TRY(wait_for(fd, POLLOUT, stop));
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return sys_error("write to the data port");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Status read_from(int fd, std::span<char> bytes, const ShouldStop& stop) {
  while (!bytes.empty()) {
    SBX_TRY(wait_for(fd, POLLIN, stop));
    const ssize_t n = ::read(fd, bytes.data(), bytes.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return sys_error("read from the data port");
    if (n == 0) return Error(Errc::kProtocol, "the data port was closed in the middle");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

std::string length_of(std::size_t size) {
  std::string out(kLengthSize, '\0');
  for (std::size_t i = 0; i < kLengthSize; ++i) {
    out[i] = static_cast<char>(size >> (kBitsPerByte * i) & 0xffU);
  }
  return out;
}

/// A worker's answer: nothing, or what went wrong.
std::string answer(const Status& status) {
  return status.ok() ? std::string() : status.error().message();
}

Status end_of(image::Worker& worker, std::string_view what) {
  SBX_ASSIGN(const std::string said, worker.finish(kLongestWords));
  if (said.empty()) return {};
  return Error(Errc::kSystem, text::cat(what, ": ", said));
}

}  // namespace

Status send_work(int port, const std::function<Status(int out)>& work, const ShouldStop& stop) {
  SBX_ASSIGN(sys::Pipe pipe, sys::pipe());
  SBX_ASSIGN(image::Worker worker, image::Worker::start("pack files", [&] {
               pipe.r.reset();
               return answer(work(pipe.w.get()));
             }));
  pipe.w.reset();
  std::string buffer(kLongestPiece, '\0');
  while (true) {
    const ssize_t n = ::read(pipe.r.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys_error("read from the packer");
    if (n == 0) break;
    const auto size = static_cast<std::size_t>(n);
    SBX_TRY(write_to(port, length_of(size), stop));
    SBX_TRY(write_to(port, std::string_view(buffer).substr(0, size), stop));
  }
  const Status packed = end_of(worker, "pack files");
  std::string end = length_of(0);
  end += packed.ok() ? '\0' : '\1';
  SBX_TRY(write_to(port, end, stop));
  return packed;
}

Status receive_work(int port, const std::function<Status(int in)>& work, const ShouldStop& stop) {
  SBX_ASSIGN(sys::Pipe pipe, sys::pipe());
  SBX_ASSIGN(image::Worker worker, image::Worker::start("unpack files", [&] {
               pipe.w.reset();
               return answer(work(pipe.r.get()));
             }));
  pipe.r.reset();
  std::string buffer(kLongestPiece, '\0');
  while (true) {
    std::array<char, kLengthSize> head{};
    SBX_TRY(read_from(port, head, stop));
    std::size_t size = 0;
    for (std::size_t i = 0; i < kLengthSize; ++i) {
      size |= std::size_t{static_cast<unsigned char>(head.at(i))} << (kBitsPerByte * i);
    }
    if (size > kLongestPiece) return Error(Errc::kProtocol, "a piece of data that is too long");
    if (size == 0) break;
    const std::span<char> piece(buffer.data(), size);
    SBX_TRY(read_from(port, piece, stop));
    const Status given = write_to(pipe.w.get(), std::string_view(buffer).substr(0, size), stop);
    if (given.ok()) continue;
    if (given.error().sys_errno() != EPIPE) return given;
    SBX_TRY(end_of(worker, "unpack files"));  // it knows why
    return given;
  }
  std::array<char, 1> verdict{};
  SBX_TRY(read_from(port, verdict, stop));
  pipe.w.reset();
  SBX_TRY(end_of(worker, "unpack files"));
  if (verdict[0] == '\0') return {};
  return Error(Errc::kSystem, "the sender could not read all of it");
}

}  // namespace sbx::vm
