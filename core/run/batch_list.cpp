// Batch list: see batch_list.h.
#include "core/run/batch_list.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"
#include "core/run/run.h"

namespace sbx::run {

namespace {

constexpr std::size_t kReadSize = std::size_t{256} << 10U;

bool is_component(const std::string& id) {
  return id.find('/') == std::string::npos && id != "." && id != ".." &&
         id.find('\0') == std::string::npos;
}

}  // namespace

Result<ReadyJob> ready_job(const BatchRequest& request, const NumberedLine& line) {
  SBX_ASSIGN(BatchJob job, parse_batch_job(line.text, request.keys));
  ReadyJob ready;
  ready.id = job.id.empty() ? std::to_string(line.number) : std::move(job.id);
  ready.input.swap(job.input);
  ready.options = batch_options(request.defaults, std::move(job));
  ready.options.want_stdin = ready.input.has_value();
  if (request.out.has_value() && !ready.options.out.has_value()) {
    if (!is_component(ready.id)) {
      return Error(Errc::kUsage,
                   text::cat("id \"", text::escape(ready.id), "\" cannot name a directory"))
          .with_hint("with -o, give the job an id without /, or an \"out\" of its own");
    }
    ready.options.out = text::cat(*request.out, "/", ready.id);
  }
  return ready;
}

BatchList::BatchList(const BatchRequest& request, const EarlierResults& earlier)
    : request_(request), earlier_(earlier), cutter_(kLongestJobLine) {}

Error BatchList::at_line(std::uint64_t number, Error error) const {
  return std::move(error).prefixed(text::cat(request_.list_name, " line ", number));
}

Result<BatchList::Looked> BatchList::look_at(const NumberedLine& line) {
  auto job = ready_job(request_, line);
  if (!job.ok()) return at_line(line.number, std::move(job).error());
  Looked looked{std::move(job).value(), job_digest(line.text)};
  if (is_checked_) return looked;
  Finished known;
  if (!seen_.add(looked.job.id, {.line = line.number}, &known)) {
    return at_line(
        line.number,
        Error(Errc::kUsage,
              text::cat(
                  "id \"", text::escape(looked.job.id), "\" is that of line ", known.line, ", too"))
            .with_hint("a job without an id has its line's number"));
  }
  SBX_TRY(check_earlier(line, looked));
  return looked;
}

/// A result belongs to the text that it was made from.
Status BatchList::check_earlier(const NumberedLine& line, const Looked& looked) const {
  const Finished* finished = earlier_.jobs.find(looked.job.id);
  if (finished == nullptr) return {};
  if (std::equal(finished->digest.begin(), finished->digest.end(), looked.digest.begin())) {
    return {};
  }
  return at_line(line.number,
                 Error(Errc::kUsage,
                       text::cat("job \"",
                                 text::escape(looked.job.id),
                                 "\" has a result, but is another one now (it was line ",
                                 finished->line,
                                 ")"))
                     .with_hint("to run it again, take its line out of the results, or name a new "
                                "file with --results"));
}

Result<std::optional<std::uint64_t>> BatchList::check() {
  SBX_ASSIGN(const struct stat info, sys::fstat(request_.list_fd));
  is_stream_ = !S_ISREG(info.st_mode);
  if (is_stream_) return std::optional<std::uint64_t>();
  const off_t begin = ::lseek(request_.list_fd, 0, SEEK_CUR);
  std::uint64_t jobs = 0;
  while (!cutter_.is_done()) {
    auto line = cutter_.next();
    if (!line.ok()) return std::move(line).error().prefixed(request_.list_name);
    if (line.value()) {
      SBX_TRY(look_at(*line.value()));
      ++jobs;
    } else if (!cutter_.is_done()) {
      SBX_TRY(read_more());
    }
  }
  cutter_ = LineCutter(kLongestJobLine);
  seen_ = JobSet();
  is_checked_ = true;
  if (::lseek(request_.list_fd, begin, SEEK_SET) < 0) {
    return sys_error(text::cat("seek in ", request_.list_name));
  }
  return std::optional(jobs);
}

Status BatchList::read_more() {
  std::string piece(kReadSize, '\0');
  auto size = sys::read(request_.list_fd, piece.data(), piece.size());
  if (!size.ok()) return std::move(size).error().prefixed(request_.list_name);
  if (size.value() == 0) {
    cutter_.end();
  } else {
    cutter_.feed(std::string_view(piece).substr(0, size.value()));
  }
  return {};
}

Result<std::optional<ListedJob>> BatchList::next() {
  while (true) {
    auto line = cutter_.next();
    if (!line.ok()) return std::move(line).error().prefixed(request_.list_name);
    if (!line.value()) return std::optional<ListedJob>();
    SBX_ASSIGN(Looked looked, look_at(*line.value()));
    if (earlier_.jobs.find(looked.job.id) != nullptr) continue;
    ListedJob job{.line = std::move(*line.value()),
                  .id = std::move(looked.job.id),
                  .digest = std::move(looked.digest),
                  .memory = Bytes{0}};
    // A mistake shows once more in the worker, and becomes the job's result there.
    if (auto memory = memory_limit(looked.job.options); memory.ok()) job.memory = memory.value();
    return std::optional(std::move(job));
  }
}

}  // namespace sbx::run
