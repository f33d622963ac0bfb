// Storage job: see storage_job.h.
//
// The answer is one byte (0: done, else the code of the error and 1), then the text; of an error
// its message, NUL, its hint. The child may be under the influence of what it read, so the code is
// checked.
#include "core/image/storage_job.h"

#include <sys/wait.h>

#include <utility>

#include "core/base/sys.h"
#include "core/base/text.h"

namespace sbx::image {

namespace {

constexpr Bytes kMaxAnswer{std::uint64_t{1} << 20U};

std::string encode(const Result<std::string>& result) {
  if (result.ok()) return std::string(1, '\0') + result.value();
  const Error& error = result.error();
  std::string out(1, static_cast<char>(static_cast<int>(error.code()) + 1));
  out += error.message();
  out += '\0';
  out += error.hint();
  return out;
}

Result<std::string> decode(const std::string& answer) {
  const auto code = static_cast<unsigned char>(answer.front());
  if (code == 0) return answer.substr(1);
  constexpr auto kLast = static_cast<unsigned char>(Errc::kInternal);
  const auto errc = code - 1 > kLast ? Errc::kInternal : static_cast<Errc>(code - 1);
  const std::size_t end = answer.find('\0', 1);
  Error error(errc, answer.substr(1, end == std::string::npos ? end : end - 1));
  if (end == std::string::npos || end + 1 == answer.size()) return error;
  return std::move(error).with_hint(answer.substr(end + 1));
}

}  // namespace

Result<StorageJob> StorageJob::start(const confine::StorageIds& ids,
                                     const std::function<Result<std::string>()>& body) {
  SBX_ASSIGN(sys::Pipe answer, sys::pipe());
  SBX_ASSIGN(ChildProcess child, confine::fork_as_storage_root(ids, [&] {
               answer.r.reset();
               return sys::write_all(answer.w.get(), encode(body())).ok() ? 0 : 1;
             }));
  return StorageJob(std::move(child), std::move(answer.r));
}

Result<std::string> StorageJob::finish(std::string_view what) {
  SBX_ASSIGN(const std::string answer, sys::read_all(answer_.get(), kMaxAnswer));
  SBX_ASSIGN(const int status, child_.wait());
  if (!answer.empty()) return decode(answer);
  if (WIFSIGNALED(status)) {
    return Error(Errc::kSystem, text::cat(what, ": ended by signal ", WTERMSIG(status)));
  }
  return Error(Errc::kSystem, text::cat(what, ": cannot become root of a user namespace"))
      .with_hint("sbx doctor says what is missing");
}

Result<std::string> run_storage_job(const confine::StorageIds& ids,
                                    std::string_view what,
                                    const std::function<Result<std::string>()>& body) {
  SBX_ASSIGN(StorageJob job, StorageJob::start(ids, body));
  return job.finish(what);
}

}  // namespace sbx::image
