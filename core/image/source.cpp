// Source: see source.h.
#include "core/image/source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/sys.h"

namespace sbx::image {

namespace {

constexpr std::size_t kBlock = std::size_t{256} << 10U;

Status waited(const Result<int>& polled) {
  return polled.ok() ? Status() : Status(polled.error());
}

}  // namespace

FdBlocks::FdBlocks(int fd, std::function<void(std::uint64_t)> on_read)
    : fd_(fd), on_read_(std::move(on_read)), buffer_(kBlock) {
  const auto st = sys::fstat(fd);
  if (!st.ok() || !S_ISREG(st.value().st_mode)) return;
  const off_t at = ::lseek(fd, 0, SEEK_CUR);
  is_file_ = at >= 0;
  start_ = is_file_ ? static_cast<std::uint64_t>(at) : 0;
  size_ = static_cast<std::uint64_t>(st.value().st_size);
}

Result<std::span<const std::byte>> FdBlocks::next() {
  // Pipes give little at a time; half a block is worth a system call of whoever comes next.
  std::size_t have = 0;
  while (have < buffer_.size() / 2) {
    const auto n = sys::read(fd_, std::span(buffer_).subspan(have));
    if (!n.ok() && n.error().sys_errno() == EAGAIN) {  // somebody else's setting of a pipe
      pollfd ready{fd_, POLLIN, 0};
      SBX_TRY(waited(sys::poll(std::span(&ready, 1), Millis{-1})));
      continue;
    }
    if (!n.ok()) return n.error();
    if (n.value() == 0) break;
    have += n.value();
    on_read_(n.value());
  }
  return std::span<const std::byte>(buffer_.data(), have);
}

Result<std::uint64_t> FdBlocks::skip(std::uint64_t bytes) {
  if (!is_file_) return std::uint64_t{0};
  const off_t at = ::lseek(fd_, 0, SEEK_CUR);
  if (at < 0) return sys_error("seek in the archive");
  // Never beyond the end: a cut file has to be seen as one.
  const auto here = static_cast<std::uint64_t>(at);
  const std::uint64_t step = here < size_ ? std::min(bytes, size_ - here) : 0;
  if (::lseek(fd_, static_cast<off_t>(step), SEEK_CUR) < 0) return sys_error("seek in the archive");
  on_read_(step);
  return step;
}

Status FdBlocks::rewind() {
  if (!is_file_) return Error(Errc::kUnsupported, "a pipe cannot be read twice");
  if (::lseek(fd_, static_cast<off_t>(start_), SEEK_SET) < 0)
    return sys_error("seek in the archive");
  return {};
}

Result<std::string_view> Peekable::peek(std::size_t size) {
  while (head_.size() < size) {
    SBX_ASSIGN(const std::span<const std::byte> block, input_());
    if (block.empty()) break;
    head_.append(reinterpret_cast<const char*>(block.data()), block.size());
  }
  return std::string_view(head_).substr(0, size);
}

Result<std::span<const std::byte>> Peekable::next() {
  if (at_ == head_.size()) return input_();
  const auto rest = std::as_bytes(std::span(head_)).subspan(at_);
  at_ = head_.size();
  return rest;
}

}  // namespace sbx::image
