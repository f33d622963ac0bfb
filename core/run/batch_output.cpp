// Batch output: see batch_output.h.
#include "core/run/batch_output.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <string_view>
#include <utility>

#include "core/base/sys.h"

namespace sbx::run {

Result<BatchOutput> BatchOutput::open(const BatchRequest& request) {
  BatchOutput output;
  if (request.results) {
    const auto mode = request.resume ? ResultFile::Mode::kResume : ResultFile::Mode::kNew;
    SBX_ASSIGN(ResultFile file, ResultFile::open(*request.results, mode));
    output.file_.emplace(std::move(file));
    return output;
  }
  SBX_ASSIGN(const struct stat info, sys::fstat(STDOUT_FILENO));
  output.may_wait_ =
      S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || ::isatty(STDOUT_FILENO) == 1;
  return output;
}

Result<EarlierResults> BatchOutput::recover() {
  return file_->recover();
}

void BatchOutput::attach(Loop& loop, std::function<void(Status)> progressed) {
  progressed_ = std::move(progressed);
  if (!may_wait_) return;
  watch_ = loop.add_fd(STDOUT_FILENO, EPOLLOUT, [this](std::uint32_t /*events*/) {
    Status written = write_some();
    if (!written.ok() || waiting_.empty()) progressed_(std::move(written));
  });
  watch_.set_events(0);
}

Status BatchOutput::put(const std::string& line) {
  if (has_failed_) return {};
  if (may_wait_) {
    waiting_ += line;
    return write_some();
  }
  Status written = file_ ? file_->append(line) : sys::write_all(STDOUT_FILENO, line);
  has_failed_ = !written.ok();
  if (has_failed_ && !file_) return std::move(written).error().prefixed("write results to stdout");
  return written;
}

/// As much as goes without waiting: a pipe that is writable takes PIPE_BUF bytes (pipe(7)), so
/// that a write of no more does not block.
Status BatchOutput::write_some() {
  std::string_view rest = waiting_;
  Status status;
  while (!rest.empty()) {
    std::array<pollfd, 1> polled{{{STDOUT_FILENO, POLLOUT, 0}}};
    auto ready = sys::poll(polled, Millis{0});
    if (!ready.ok() || ready.value() == 0) break;
    auto size = sys::write(STDOUT_FILENO, rest.substr(0, PIPE_BUF));
    if (!size.ok()) {
      has_failed_ = true;
      status = std::move(size).error().prefixed("write results to stdout");
      rest = {};
      break;
    }
    rest.remove_prefix(size.value());
  }
  waiting_.erase(0, waiting_.size() - rest.size());
  watch_.set_events(waiting_.empty() ? 0U : std::uint32_t{EPOLLOUT});
  return status;
}

void BatchOutput::give_up() {
  has_failed_ = has_failed_ || !waiting_.empty();
  waiting_.clear();
  watch_.set_events(0);
}

Status BatchOutput::sync() {
  return file_ ? file_->sync() : Status();
}

}  // namespace sbx::run
