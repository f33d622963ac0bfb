// CronOptions: see cron_options.h.
#include "cli/cron_options.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "cli/directories.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/run/pattern.h"

namespace sbx::cli {
namespace {

constexpr std::array<std::string_view, 6> kFlags = {
    "lock", "on-overlap", "deadline", "retry", "record", "keep"};

Error usage(std::string message, std::string hint) {
  return Error(Errc::kUsage, std::move(message)).with_hint(std::move(hint));
}

Result<std::uint64_t> count_of(std::string_view flag,
                               const std::string& value,
                               std::uint64_t least) {
  constexpr std::uint64_t kMost = 1'000'000;
  Result<std::uint64_t> number = parse_count(value);
  if (!number.ok()) return std::move(number).error().prefixed(flag);
  if (number.value() < least || number.value() > kMost) {
    return usage(text::cat(flag, ": ", value, " is out of range"),
                 text::cat("a number from ", least, " to ", kMost));
  }
  return number.value();
}

/// What was read from stdin once cannot be read again.
Status check_retry(const Invocation& given, const run::Options& options) {
  std::string_view what;
  if (options.program.kind == run::ProgramKind::kStdin) what = "code from stdin";
  if (given.has("stdin")) what = "--stdin";
  if (given.has("tty")) what = "-t/--tty";
  if (what.empty()) return {};
  return usage(text::cat("--retry and ", what, " do not go together: input cannot be read again"),
               "put the input into a file and hand it in with -i");
}

Status read_lock(const Invocation& given, run::CronOptions& cron) {
  if (const std::string* name = given.last("lock")) {
    SBX_TRY(run::check_lock_name(*name));
    cron.lock = *name;
  }
  const std::string* rule = given.last("on-overlap");
  if (rule == nullptr) return {};
  if (cron.lock.empty()) {
    return usage("--on-overlap says what to do about a lock, and there is none",
                 "name one with --lock NAME");
  }
  const std::optional<run::Overlap> overlap = run::parse_overlap(*rule);
  if (!overlap) {
    return usage(text::cat("--on-overlap: \"", text::escape(*rule), "\" is no rule"),
                 "skip, wait or kill");
  }
  cron.overlap = *overlap;
  return {};
}

Status read_deadline(const Invocation& given, run::CronOptions& cron) {
  const std::string* value = given.last("deadline");
  if (value == nullptr) return {};
  Result<Millis> time = parse_duration(*value);
  if (!time.ok()) return std::move(time).error().prefixed("--deadline");
  constexpr Millis kLongest{std::int64_t{10} * 365 * 86'400'000};
  if (time.value().v == 0 || time.value().v > kLongest.v) {
    return usage(text::cat("--deadline: ", *value, " is out of range"), "for example: 10m, 2h");
  }
  cron.deadline = time.value();
  return {};
}

}  // namespace

Result<std::optional<run::CronOptions>> cron_options_of(const Invocation& given,
                                                        const run::Options& options) {
  const bool is_asked =
      std::ranges::any_of(kFlags, [&](std::string_view flag) { return given.has(flag); });
  if (!is_asked) return std::optional<run::CronOptions>();
  run::CronOptions cron;
  SBX_TRY(read_lock(given, cron));
  SBX_TRY(read_deadline(given, cron));
  if (const std::string* value = given.last("retry")) {
    SBX_ASSIGN(cron.retry, count_of("--retry", *value, 0));
    if (cron.retry > 0) SBX_TRY(check_retry(given, options));
  }
  cron.record = given.has("record");
  if (const std::string* value = given.last("keep")) {
    SBX_ASSIGN(cron.keep, count_of("--keep", *value, 1));
    if (run::series_of(options, cron).empty()) {
      return usage("--keep: nothing says which runs belong together",
                   "name them with --lock NAME, or say where their files go with -o");
    }
  }
  const bool needs_state = !cron.lock.empty() || cron.record || cron.keep.has_value();
  if (needs_state && options.state_dir.empty()) {
    Result<Directories> found = directories(State::kNeeded);
    if (!found.ok()) return std::move(found).error();
  }
  return std::optional<run::CronOptions>(std::move(cron));
}

}  // namespace sbx::cli
