// Exec_log_reader: see exec_log_reader.h.
//
// Theory of operation
//
// 1. A record is handed out when all of it can be read. One that is not whole yet is read again
//    from its beginning: the writer may still be at it, or may cut it away after a failed write.
// 2. At the end of a file that is no longer "ID.log" (rotated, perhaps replaced since) it is read
//    once more, because the writer may have added to it before it renamed it; then the file with
//    the next number is opened. Numbers tell whether files were missed, and the byte counts in
//    their headers how much was in them.
#include "core/session/exec_log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::session {
namespace {

constexpr std::size_t kReadAhead = std::size_t{256} << 10U;
constexpr std::size_t kDroppedContent = 16;
constexpr int kOpenFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

std::uint64_t number_in(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = value << 8U | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

/// Fills `out` from `offset` as far as the file goes; the number of bytes.
Result<std::size_t> read_at(int fd, char* out, std::size_t size, std::uint64_t offset) {
  std::size_t got = 0;
  while (got < size) {
    const ssize_t n = ::pread(fd, out + got, size - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return sys_error("read the log of an exec");
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

/// Whether there are records of this kind and length.
bool is_possible(LogKind kind, std::uint64_t length) {
  switch (kind) {
    case LogKind::kOut:
    case LogKind::kErr:
      return length <= kLongestLogRecord;
    case LogKind::kDropped:
      return length == kDroppedContent;
    case LogKind::kEnd:
      return length == 0;
  }
  return false;
}

std::uint64_t missing(std::uint64_t from, std::uint64_t to) {
  return to > from ? to - from : 0;
}

}  // namespace

struct ExecLogReader::Header {
  std::uint64_t number = 0;
  StreamBytes start;
};

Result<ExecLogReader::Header> ExecLogReader::read_header(int fd, std::uint32_t exec) {
  std::array<char, kLogHeader> raw{};
  SBX_ASSIGN(const std::size_t size, read_at(fd, raw.data(), raw.size(), 0));
  const std::string_view all(raw.data(), raw.size());
  const std::string what = text::cat("read the log of exec ", exec);
  if (size != raw.size() || !all.starts_with(kLogMagic)) {
    return Error(Errc::kProtocol, text::cat(what, ": it is not a log of sbx"));
  }
  if (const std::uint64_t format = number_in(all.substr(8, 4)); format != kLogFormat) {
    return Error(Errc::kUnsupported, text::cat(what, ": its format ", format, " is a newer one"))
        .with_hint("use the newer sbx that wrote it");
  }
  if (number_in(all.substr(12, 4)) != exec) {
    return Error(Errc::kProtocol, text::cat(what, ": it belongs to another exec"));
  }
  return Header{
      .number = number_in(all.substr(16, 8)),
      .start = {.out = number_in(all.substr(24, 8)), .err = number_in(all.substr(32, 8))}};
}

Result<ExecLogReader> ExecLogReader::open(int dirfd, std::uint32_t exec, Absent absent) {
  ExecLogReader reader;
  SBX_ASSIGN(reader.dir_, sys::dup(dirfd));
  reader.exec_ = exec;
  SBX_ASSIGN(const bool is_there, reader.open_from(0));
  if (!is_there && absent == Absent::kRefuse) {
    return Error(Errc::kNotFound, text::cat("exec ", exec, " has no log"));
  }
  return reader;
}

Result<bool> ExecLogReader::open_from(std::uint64_t least) {
  // The older one first: if a rotation comes in between, the second file is too new, which shows.
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    bool is_gap = false;
    for (const std::string& name : {older_log_name(exec_), log_name(exec_)}) {
      Result<UniqueFd> file = sys::openat(dir_.get(), name, kOpenFlags);
      if (!file.ok() && file.error().code() == Errc::kNotFound) continue;
      if (!file.ok()) return std::move(file).error();
      SBX_ASSIGN(const struct stat st, sys::fstat(file.value().get()));
      if (!S_ISREG(st.st_mode)) return Error(Errc::kProtocol, text::cat(name, " is no file"));
      Result<Header> header = read_header(file.value().get(), exec_);
      // Just made, and its header is on the way: as if it was not there yet.
      if (!header.ok() && static_cast<std::uint64_t>(st.st_size) < kLogHeader) continue;
      if (!header.ok()) return std::move(header).error();
      if (header.value().number < least) continue;
      is_gap = header.value().number > least;
      if (is_gap && name == log_name(exec_) && i + 1 < kTries) break;  // look again
      file_ = std::move(file).value();
      number_ = header.value().number;
      offset_ = buffer_at_ = kLogHeader;
      buffer_.clear();
      missing_.out += missing(position_.out, header.value().start.out);
      missing_.err += missing(position_.err, header.value().start.err);
      position_ = header.value().start;
      return true;
    }
    if (!is_gap) return false;
  }
  return false;
}

bool ExecLogReader::is_current() const {
  const auto named = sys::fstatat(dir_.get(), log_name(exec_), AT_SYMLINK_NOFOLLOW);
  const auto ours = sys::fstat(file_.get());
  return named.ok() && ours.ok() && named.value().st_ino == ours.value().st_ino &&
         named.value().st_dev == ours.value().st_dev;
}

Result<bool> ExecLogReader::fill(std::size_t size) {
  if (offset_ + size <= buffer_at_ + buffer_.size()) return true;
  buffer_.resize(std::max(size, kReadAhead));
  buffer_at_ = offset_;
  const Result<std::size_t> got = read_at(file_.get(), buffer_.data(), buffer_.size(), offset_);
  buffer_.resize(got.ok() ? got.value() : 0);
  if (!got.ok()) return got.error();
  return got.value() >= size;
}

Result<std::optional<LogRecord>> ExecLogReader::peek() {
  const auto none = [&] {
    buffer_.clear();  // read anew the next time
    return std::optional<LogRecord>();
  };
  SBX_ASSIGN(const bool has_header, fill(kLogRecordHeader));
  if (!has_header) return none();
  const std::string header = buffer_.substr(offset_ - buffer_at_, kLogRecordHeader);
  const std::uint64_t length = number_in(std::string_view(header).substr(9));
  LogRecord record;
  record.kind = static_cast<LogKind>(header[8]);
  record.time_ns = static_cast<std::int64_t>(number_in(std::string_view(header).substr(0, 8)));
  if (!is_possible(record.kind, length)) return none();
  SBX_ASSIGN(const bool is_whole, fill(kLogRecordHeader + length));
  const std::string_view all = std::string_view(buffer_).substr(offset_ - buffer_at_);
  if (!is_whole || !all.starts_with(header)) return none();
  const std::string_view bytes = all.substr(kLogRecordHeader, length);
  if (record.kind == LogKind::kDropped) {
    record.dropped = {.out = number_in(bytes.substr(0, 8)), .err = number_in(bytes.substr(8))};
  } else {
    record.bytes = bytes;
  }
  return std::optional(record);
}

void ExecLogReader::pass(const LogRecord& record) {
  offset_ +=
      kLogRecordHeader + (record.kind == LogKind::kDropped ? kDroppedContent : record.bytes.size());
  position_.out += record.dropped.out + (record.kind == LogKind::kOut ? record.bytes.size() : 0);
  position_.err += record.dropped.err + (record.kind == LogKind::kErr ? record.bytes.size() : 0);
}

LogRecord ExecLogReader::take_missing() {
  return {.kind = LogKind::kDropped, .bytes = {}, .dropped = std::exchange(missing_, {})};
}

Result<std::optional<LogRecord>> ExecLogReader::next() {
  if (!file_.valid()) {
    SBX_ASSIGN(const bool is_there, open_from(0));
    if (!is_there) return std::optional<LogRecord>();
  }
  while (!has_ended_) {
    SBX_ASSIGN(std::optional<LogRecord> record, peek());
    if (!record && !is_current()) {
      SBX_ASSIGN(record, peek());
      if (!record) {
        if (number_ == std::numeric_limits<std::uint64_t>::max()) break;
        SBX_ASSIGN(const bool is_there, open_from(number_ + 1));
        if (is_there) continue;
      }
    }
    const bool is_wanted = record ? record->time_ns >= since_ns_ : since_ns_ == 0;
    if (missing_.sum() != 0 && is_wanted) return std::optional(take_missing());
    if (!record) break;
    pass(*record);
    has_ended_ = record->kind == LogKind::kEnd;
    if (is_wanted || has_ended_) return record;
    missing_ = {};  // older than what is asked for
  }
  return std::optional<LogRecord>();
}

}  // namespace sbx::session
