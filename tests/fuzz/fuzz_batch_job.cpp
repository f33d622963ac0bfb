// Fuzz batch job: lines of a job list, and of a file of results, of any content are read without a
// crash, and never into more than they were.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "core/run/batch_job.h"
#include "core/run/batch_lines.h"
#include "core/run/batch_results.h"

namespace {

constexpr std::array<sbx::run::KeyField, 2> kKeys = {
    {{"memory", "limits.memory"}, {"pids", "limits.pids"}}};

void must(bool fact) {
  if (!fact) std::abort();
}

void parse_line(std::string_view line) {
  auto job = sbx::run::parse_batch_job(line, kKeys);
  if (!job.ok()) {
    must(job.error().code() == sbx::Errc::kUsage && !job.error().message().empty());
    return;
  }
  std::size_t size = 0;
  for (const std::string& word : job.value().program.args) {
    must(word.find('\0') == std::string::npos);
    size += word.size();
  }
  must(size + job.value().program.text.size() <= line.size());
  must(job.value().program.kind != sbx::run::ProgramKind::kNone);
  must(job.value().id.size() <= sbx::run::kLongestJobId);
  (void)sbx::run::batch_options({}, std::move(job).value());
}

/// The same lines, however the bytes arrive.
void cut(std::string_view text, std::size_t piece) {
  sbx::run::LineCutter cutter(sbx::Bytes{4096});
  std::uint64_t last = 0;
  for (std::size_t at = 0;; at += piece) {
    const bool is_end = at >= text.size();
    if (is_end) {
      cutter.end();
    } else {
      cutter.feed(text.substr(at, piece));
    }
    while (true) {
      auto line = cutter.next();
      if (!line.ok()) return;
      if (!line.value()) break;
      must(line.value()->number > last);
      must(line.value()->text.find('\n') == std::string::npos);
      last = line.value()->number;
      parse_line(line.value()->text);
    }
    if (is_end) break;
  }
  must(cutter.is_done());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  parse_line(text);
  cut(text, 7);
  if (const auto head = sbx::run::parse_result_head(text); head.ok()) {
    must(head.value().digest.size() == 16);
  }
  return 0;
}
