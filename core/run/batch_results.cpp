// Batch results: see batch_results.h.
//
// Theory of operation: what survives what
// 1. One process writes, one write(2) a line, at the end of the file (O_APPEND). A kill -9 between
//    two lines loses nothing; in the middle of one it leaves a last line without a newline, which
//    recover() cuts off: that job has no result and runs again.
// 2. sync() is called about once a second and at the end, not for each line: a flush costs more
//    than a job. What a power cut can lose is the last second; those jobs run again.
// 3. Lines of interrupted jobs are no results to keep: recover() writes the others to a file beside
//    it, and renames that over the old one. Its name is fixed, so that one left by a kill -9 is
//    replaced by the next.
#include "core/run/batch_results.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/fs.h"
#include "core/base/sha256.h"
#include "core/base/sys.h"
#include "core/base/text.h"

#include <nlohmann/json.hpp>

namespace sbx::run {

namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20U;
/// Members before "stdout" are short.
constexpr std::size_t kLongestHead = std::size_t{64} << 10U;
constexpr std::string_view kNewSuffix = ".sbx-new";

/// Takes the outermost members until all that are wanted are there.
class HeadReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  ResultHead head;
  bool is_complete() const { return found_ == kAll; }

  bool null() override { return more(); }
  bool boolean(bool /*value*/) override { return more(); }
  bool number_integer(std::int64_t value) override {
    if (is_at("exit_code")) return put(kExit, head.exit_status, static_cast<int>(value));
    return more();
  }
  bool number_unsigned(std::uint64_t value) override {
    if (is_at("line")) return put(kLine, head.line, value);
    if (is_at("exit_code")) return put(kExit, head.exit_status, static_cast<int>(value));
    return more();
  }
  bool number_float(double /*value*/, const std::string& /*text*/) override { return more(); }
  bool string(std::string& value) override {
    if (is_at("job")) return put(kJob, head.job, value);
    if (is_at("job_digest")) return put(kDigest, head.digest, value);
    if (is_at("cause")) return put(kCause, head.cause, value);
    return more();
  }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override {
    ++depth_;
    return true;
  }
  bool key(std::string& name) override {
    key_ = depth_ == 1 ? std::move(name) : std::string();
    return true;
  }
  bool end_object() override {
    --depth_;
    return more();
  }
  bool start_array(std::size_t /*size*/) override {
    ++depth_;
    return depth_ > 1;
  }
  bool end_array() override {
    --depth_;
    return more();
  }
  bool parse_error(std::size_t /*position*/,
                   const std::string& /*token*/,
                   const nlohmann::detail::exception& /*what*/) override {
    return false;
  }

 private:
  static constexpr unsigned kJob = 1;
  static constexpr unsigned kLine = 2;
  static constexpr unsigned kDigest = 4;
  static constexpr unsigned kCause = 8;
  static constexpr unsigned kExit = 16;
  static constexpr unsigned kAll = 31;

  bool is_at(std::string_view name) const { return depth_ == 1 && key_ == name; }
  template <typename T>
  bool put(unsigned what, T& into, const T& value) {
    found_ |= what;
    into = value;
    return more();
  }
  /// Whether to read on.
  bool more() const { return !is_complete(); }

  unsigned depth_ = 0;
  unsigned found_ = 0;
  std::string key_;
};

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Walks over the lines of a file: the beginning of each, where it starts and where it ends.
class LineScan {
 public:
  explicit LineScan(int fd) : fd_(fd), buffer_(kChunk, '\0') {}

  struct Line {
    std::string head;         // at most kLongestHead bytes
    std::uint64_t begin = 0;  // offsets in the file
    std::uint64_t end = 0;    // behind its newline
    bool is_whole = false;    // it has one
  };
  /// The next line; nullopt at the end.
  Result<std::optional<Line>> next() {
    Line line;
    line.begin = line.end = offset_ + at_;
    while (true) {
      if (at_ == filled_) {
        offset_ += filled_;
        at_ = filled_ = 0;
        const ssize_t n = ::pread(fd_, buffer_.data(), buffer_.size(), static_cast<off_t>(offset_));
        if (n < 0) return sys_error("read the results");
        filled_ = static_cast<std::size_t>(n);
        if (filled_ == 0) break;
      }
      const std::string_view rest(buffer_.data() + at_, filled_ - at_);
      const std::size_t newline = rest.find('\n');
      line.is_whole = newline != std::string_view::npos;
      const std::string_view part = rest.substr(0, newline);
      if (line.head.size() < kLongestHead) {
        line.head += part.substr(0, kLongestHead - line.head.size());
      }
      at_ += part.size() + (line.is_whole ? 1U : 0U);
      line.end = offset_ + at_;
      if (line.is_whole) break;
    }
    if (line.begin == line.end) return std::optional<Line>();
    return std::optional<Line>(std::move(line));
  }

 private:
  int fd_;
  std::string buffer_;
  std::uint64_t offset_ = 0;  // of the buffer in the file
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
};

Error not_ours(const std::string& path, std::uint64_t number, const std::string& why) {
  return Error(Errc::kUsage, text::cat(path, " line ", number, ": no result of a batch: ", why))
      .with_hint("name another file with --results, or remove that line");
}

bool is_beginning_of_result(std::string_view torn) {
  constexpr std::string_view kBegin = R"({"job":")";
  return torn.substr(0, kBegin.size()) == kBegin.substr(0, torn.size());
}

}  // namespace

std::string job_digest(std::string_view line) {
  Sha256 hash;
  hash.update(line);
  const auto all = hash.digest();
  return text::hex(std::span(all).first(sizeof(Finished::digest) / 2));
}

std::string result_line(const ResultHead& head, std::string_view report_json) {
  return text::cat(R"({"job":)",
                   json_text(head.job),
                   R"(,"line":)",
                   head.line,
                   R"(,"job_digest":")",
                   head.digest,
                   R"(",)",
                   report_json.substr(1),
                   "\n");
}

Result<ResultHead> parse_result_head(std::string_view line) {
  HeadReader reader;
  (void)nlohmann::json::sax_parse(line.begin(), line.end(), &reader);
  if (!reader.is_complete() || reader.head.digest.size() != sizeof(Finished::digest)) {
    return Error(Errc::kProtocol,
                 "\"job\", \"line\", \"job_digest\", \"cause\" or \"exit_code\" "
                 "is missing");
  }
  return std::move(reader.head);
}

JobSet::Key JobSet::key_of(std::string_view id) {
  Sha256 hash;
  hash.update(id);
  const auto all = hash.digest();
  Key key;
  std::memcpy(key.words.data(), all.data(), sizeof key.words);
  return key;
}

bool JobSet::add(std::string_view id, const Finished& what, Finished* known) {
  const auto [at, is_new] = jobs_.try_emplace(key_of(id), what);
  if (!is_new && known != nullptr) *known = at->second;
  return is_new;
}

const Finished* JobSet::find(std::string_view id) const {
  const auto at = jobs_.find(key_of(id));
  return at == jobs_.end() ? nullptr : &at->second;
}

Result<ResultFile> ResultFile::open(const std::string& path, Mode mode) {
  // Read-write for recover(); a device may allow writing only.
  auto fd = sys::open(path, O_RDWR | O_CREAT | O_APPEND | O_NOCTTY | O_NONBLOCK, 0666);
  if (!fd.ok()) fd = sys::open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK, 0666);
  if (!fd.ok()) {
    return std::move(fd).error().with_code(Errc::kUsage).prefixed("--results");
  }
  SBX_TRY(sys::set_nonblocking(fd.value().get(), false));
  SBX_ASSIGN(const struct stat info, sys::fstat(fd.value().get()));
  // A write to a pipe may wait for ever, and no signal would be heard meanwhile.
  if (!S_ISREG(info.st_mode) && !S_ISCHR(info.st_mode)) {
    return Error(Errc::kUsage, text::cat("--results: ", path, " is no regular file"))
        .with_hint("name a file, or leave --results out and read standard output");
  }
  ResultFile file(path, std::move(fd).value(), S_ISREG(info.st_mode));
  if (!file.is_regular_) {
    if (mode == Mode::kNew) return file;
    return Error(Errc::kUsage, text::cat("--resume: ", path, " is no regular file"));
  }
  SBX_TRY(file.lock());
  if (mode == Mode::kNew && info.st_size != 0) {
    return Error(Errc::kUsage, text::cat("--results: ", path, " has results already"))
        .with_hint("go on with them: --resume; or name a new file");
  }
  return file;
}

Status ResultFile::lock() const {
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return sys_error(text::cat("lock ", path_));
  return Error(Errc::kUsage, text::cat("--results: ", path_, " is in use by another batch"))
      .with_hint("wait for its end, or name another file");
}

Result<EarlierResults> ResultFile::recover() {
  (void)::unlink(text::cat(path_, kNewSuffix).c_str());  // of a rewrite that was killed
  EarlierResults found;
  std::vector<std::array<std::uint64_t, 2>> dropped;
  LineScan scan(fd_.get());
  for (std::uint64_t number = 1;; ++number) {
    SBX_ASSIGN(const std::optional<LineScan::Line> line, scan.next());
    if (!line) break;
    if (!line->is_whole) {
      if (!is_beginning_of_result(line->head)) {
        return not_ours(path_, number, "it does not begin as one");
      }
      SBX_TRY(sys::ftruncate(fd_.get(), Bytes{line->begin}));
      found.was_torn = is_dirty_ = true;
      break;
    }
    const auto head = parse_result_head(line->head);
    if (!head.ok()) return not_ours(path_, number, head.error().message());
    const ResultHead& job = head.value();
    if (job.cause == supervise::name(supervise::Cause::kInterrupted)) {
      dropped.push_back({line->begin, line->end});
      continue;
    }
    Finished finished{.line = job.line};
    std::copy(job.digest.begin(), job.digest.end(), finished.digest.begin());
    if (!found.jobs.add(job.job, finished)) {
      return not_ours(path_, number, text::cat("a second one of job ", text::escape(job.job)));
    }
    const bool is_broken = job.cause == supervise::name(supervise::Cause::kSandboxError);
    count(found.counts,
          is_broken ? supervise::Cause::kSandboxError : supervise::Cause::kExited,
          job.exit_status);
    ++found.counts.earlier;
  }
  found.dropped = dropped.size();
  if (!dropped.empty()) SBX_TRY(drop_lines(dropped));
  return found;
}

Status ResultFile::drop_lines(const std::vector<std::array<std::uint64_t, 2>>& ranges) {
  SBX_ASSIGN(const struct stat info, sys::fstat(fd_.get()));
  const std::string name = text::cat(path_, kNewSuffix);
  SBX_ASSIGN(UniqueFd fresh,
             sys::open(name, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW, 0600));
  const Status written = [&]() -> Status {
    std::string buffer(kChunk, '\0');
    std::size_t next = 0;
    for (std::uint64_t at = 0; at < static_cast<std::uint64_t>(info.st_size);) {
      auto until = static_cast<std::uint64_t>(info.st_size);
      if (next < ranges.size() && ranges[next][0] == at) {
        at = ranges[next++][1];
        continue;
      }
      if (next < ranges.size()) until = ranges[next][0];
      const std::size_t size = std::min<std::uint64_t>(kChunk, until - at);
      const ssize_t n = ::pread(fd_.get(), buffer.data(), size, static_cast<off_t>(at));
      if (n <= 0) return sys_error(text::cat("read ", path_));
      SBX_TRY(sys::write_all(fresh.get(), {buffer.data(), static_cast<std::size_t>(n)}));
      at += static_cast<std::uint64_t>(n);
    }
    if (::geteuid() == 0) SBX_TRY(sys::fchown(fresh.get(), info.st_uid, info.st_gid));
    SBX_TRY(sys::fchmod(fresh.get(), info.st_mode & 07777U));
    SBX_TRY(sys::fsync(fresh.get()));
    // Through a link: the file it leads to is the one to be replaced.
    if (::flock(fresh.get(), LOCK_EX | LOCK_NB) != 0) return sys_error(text::cat("lock ", name));
    return sys::renameat(AT_FDCWD, name, AT_FDCWD, path_);
  }();
  if (!written.ok()) {
    (void)::unlink(name.c_str());
    return Error(written.error()).prefixed(text::cat("rewrite ", path_));
  }
  fd_ = std::move(fresh);
  return {};
}

Status ResultFile::append(std::string_view line) {
  std::uint64_t begin = 0;
  if (is_regular_) {
    SBX_ASSIGN(const struct stat info, sys::fstat(fd_.get()));
    begin = static_cast<std::uint64_t>(info.st_size);
  }
  const Status written = sys::write_all(fd_.get(), line);
  is_dirty_ = true;
  if (written.ok()) return {};
  if (is_regular_) (void)sys::ftruncate(fd_.get(), Bytes{begin});
  return Error(written.error()).prefixed(text::cat("--results ", path_));
}

Status ResultFile::sync() {
  if (!is_dirty_ || !is_regular_) return {};
  is_dirty_ = false;
  if (::fdatasync(fd_.get()) == 0) return {};
  return sys_error(text::cat("flush ", path_));
}

}  // namespace sbx::run
