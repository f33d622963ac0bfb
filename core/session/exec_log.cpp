// Exec_log: see exec_log.h. Writing happens at an offset of our own, never with O_APPEND, so that
// what a failed write left behind is cut away before anything follows it.
#include "core/session/exec_log.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::session {
namespace {

constexpr mode_t kMode = 0600;
constexpr std::size_t kNote = kLogRecordHeader + 16;

/// Little-endian.
template <std::size_t N>
void put_number(std::array<char, N>& out, std::size_t& at, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    out.at(at++) = static_cast<char>(value >> (8 * i));
  }
}

/// All of `parts` at `offset`. Direct system calls: this runs for every piece of output, and a full
/// disk is an answer, not an exception.
int write_at(int fd, std::span<iovec> parts, std::uint64_t offset) {
  while (!parts.empty()) {
    const ssize_t size =
        ::pwritev(fd, parts.data(), static_cast<int>(parts.size()), static_cast<off_t>(offset));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return size == 0 ? ENOSPC : errno;
    auto left = static_cast<std::size_t>(size);
    offset += left;
    while (!parts.empty() && left >= parts.front().iov_len) {
      left -= parts.front().iov_len;
      parts = parts.subspan(1);
    }
    if (left == 0) continue;
    parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + left;
    parts.front().iov_len -= left;
  }
  return 0;
}

}  // namespace

std::string_view name(Stream stream) {
  return stream == Stream::kOut ? "out" : "err";
}

std::string log_name(std::uint32_t exec) {
  return text::cat(exec, ".log");
}

std::string older_log_name(std::uint32_t exec) {
  return text::cat(exec, ".log.1");
}

Result<ExecLog> ExecLog::create(int dirfd, std::uint32_t exec, LogCaps caps) {
  ExecLog log;
  SBX_ASSIGN(log.dir_, sys::dup(dirfd));
  log.exec_ = exec;
  log.cap_ = std::max(caps.file.v, kLeastLogFile.v);
  SBX_TRY(log.open_file());
  return log;
}

Status ExecLog::open_file() {
  SBX_ASSIGN(
      UniqueFd file,
      sys::openat(dir_.get(), log_name(exec_), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, kMode));
  std::array<char, kLogHeader> header{};
  std::size_t at = kLogMagic.copy(header.data(), kLogMagic.size());
  put_number(header, at, kLogFormat, 4);
  put_number(header, at, exec_, 4);
  put_number(header, at, number_, 8);
  put_number(header, at, seen_.out - unnoted_.out, 8);
  put_number(header, at, seen_.err - unnoted_.err, 8);
  std::array parts{iovec{header.data(), header.size()}};
  if (const int err = write_at(file.get(), parts, 0); err != 0) {
    // Without its header the file would be in the way of the next attempt.
    (void)sys::unlinkat(dir_.get(), log_name(exec_));
    return sys_error(text::cat("write the log of exec ", exec_), err);
  }
  file_ = std::move(file);
  size_ = kLogHeader;
  is_torn_ = false;
  kept_here_ = 0;
  return {};
}

Status ExecLog::rotate() {
  if (file_.valid()) {
    SBX_TRY(sys::renameat(dir_.get(), log_name(exec_), dir_.get(), older_log_name(exec_)));
    file_.reset();
    kept_older_ = std::exchange(kept_here_, 0);
    ++number_;
  }
  return open_file();
}

Status ExecLog::write_record(LogKind kind, std::string_view bytes, std::int64_t realtime_ns) {
  if (is_torn_) SBX_TRY(sys::ftruncate(file_.get(), Bytes{size_}));
  is_torn_ = false;
  std::array<char, kLogRecordHeader> header{};
  std::size_t at = 0;
  put_number(header, at, static_cast<std::uint64_t>(realtime_ns), 8);
  put_number(header, at, static_cast<std::uint64_t>(kind), 1);
  put_number(header, at, bytes.size(), 4);
  // pwritev only reads what it is given.
  std::array parts{
      iovec{header.data(), header.size()},
      iovec{const_cast<char*>(bytes.data()),  // NOLINT(cppcoreguidelines-pro-type-const-cast):
                                              // struct iovec serves reading too
            bytes.size()}};
  const std::span<iovec> used(parts.data(), bytes.empty() ? 1 : 2);
  if (const int err = write_at(file_.get(), used, size_); err != 0) {
    is_torn_ = !sys::ftruncate(file_.get(), Bytes{size_}).ok();
    return sys_error(text::cat("write the log of exec ", exec_), err);
  }
  size_ += kLogRecordHeader + bytes.size();
  return {};
}

Status ExecLog::put_note(std::int64_t realtime_ns) {
  if (unnoted_.sum() == 0) return {};
  std::array<char, kNote - kLogRecordHeader> counts{};
  std::size_t at = 0;
  put_number(counts, at, unnoted_.out, 8);
  put_number(counts, at, unnoted_.err, 8);
  SBX_TRY(write_record(LogKind::kDropped, {counts.data(), counts.size()}, realtime_ns));
  unnoted_ = {};
  return {};
}

Status ExecLog::put(LogKind kind, std::string_view bytes, std::int64_t realtime_ns) {
  const std::uint64_t need = kNote + kLogRecordHeader + bytes.size();
  if (!file_.valid() || size_ + need > cap_) SBX_TRY(rotate());
  SBX_TRY(put_note(realtime_ns));
  SBX_TRY(write_record(kind, bytes, realtime_ns));
  kept_here_ += kind == LogKind::kEnd ? 0 : bytes.size();
  return {};
}

std::size_t ExecLog::longest_piece() const {
  return std::min<std::size_t>(kLongestLogRecord, cap_ - kLogHeader - kNote - kLogRecordHeader);
}

Status ExecLog::append(Stream stream, std::string_view bytes, std::int64_t realtime_ns) {
  Status first;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, longest_piece());
    bytes.remove_prefix(piece.size());
    Status put_one = has_ended_ ? Status(Error(Errc::kInternal, "the log has ended"))
                                : put(static_cast<LogKind>(stream), piece, realtime_ns);
    seen_.of(stream) += piece.size();
    if (put_one.ok()) {
      is_failing_ = false;
      continue;
    }
    refused_ += piece.size();
    unnoted_.of(stream) += piece.size();
    if (!std::exchange(is_failing_, true)) first = std::move(put_one);
  }
  return first;
}

Status ExecLog::end(std::int64_t realtime_ns) {
  if (std::exchange(has_ended_, true)) return {};
  return put(LogKind::kEnd, {}, realtime_ns);
}

Status ExecLog::sync() {
  return file_.valid() ? sys::fsync(file_.get()) : Status();
}

LogTotals ExecLog::totals() const {
  const std::uint64_t written = seen_.sum();
  return {.written = written, .dropped = written - kept_here_ - kept_older_, .refused = refused_};
}

}  // namespace sbx::session
